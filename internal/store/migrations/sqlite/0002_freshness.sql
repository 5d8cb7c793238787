-- +goose Up
CREATE TABLE freshness (
    environment TEXT NOT NULL PRIMARY KEY REFERENCES environments (id) ON DELETE CASCADE,
    refresh     BIGINT NOT NULL,
    max_age     BIGINT NOT NULL,
    head        TEXT NOT NULL,
    head_seen   BIGINT NOT NULL,
    checked     BIGINT NOT NULL,
    failures    BIGINT NOT NULL,
    failure     TEXT NOT NULL,
    next_build  BIGINT NOT NULL,
    why         TEXT NOT NULL,
    pinned      TEXT NOT NULL,
    pinned_at   BIGINT NOT NULL,
    pinned_by   TEXT NOT NULL
);

-- What is known of environments that are there: that they are built every half
-- hour unless their recipe says otherwise, which the next build reads.
INSERT INTO freshness (environment, refresh, max_age, head, head_seen, checked, failures, failure, next_build, why, pinned, pinned_at, pinned_by)
SELECT id, 1800000000000, 0, '', 0, 0, 0, '', 0, '', '', 0, '' FROM environments;

ALTER TABLE builds ADD COLUMN asked_by TEXT NOT NULL DEFAULT '';
ALTER TABLE builds ADD COLUMN why TEXT NOT NULL DEFAULT '';
