CREATE TABLE IF NOT EXISTS products (
  sku      text PRIMARY KEY,
  name     text NOT NULL,
  blurb    text NOT NULL,
  price    integer NOT NULL CHECK (price > 0),
  tint     text NOT NULL,
  position integer NOT NULL
);

INSERT INTO products (sku, name, blurb, price, tint, position) VALUES
  ('anchor-mug',   'Anchor mug',      'Enamel, holds three cups and most weather.', 1450, '#2f6f8f', 1),
  ('deck-lamp',    'Deck lamp',       'Burns all night on one charge.',             3900, '#d9822b', 2),
  ('rope-basket',  'Rope basket',     'Coiled by hand from old halyards.',          2475, '#8a6d3b', 3),
  ('storm-scarf',  'Storm scarf',     'Merino, smells of nothing when wet.',        3299, '#7a3e65', 4),
  ('chart-print',  'Harbour chart',   'The approaches, printed on cotton paper.',   1899, '#3f7d58', 5),
  ('brass-hook',   'Brass hook',      'Holds a coat, a bucket or a grudge.',         799, '#b08d2f', 6)
ON CONFLICT (sku) DO NOTHING;
