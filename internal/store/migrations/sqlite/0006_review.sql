-- +goose Up
-- What one person has looked at. A mark belongs to the content: it names a blob.
CREATE TABLE change_viewed (
    change_id TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    author    TEXT NOT NULL,
    path      BLOB NOT NULL, -- as git has it, UTF-8 or not
    blob      TEXT NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (change_id, author, path)
);

-- The head that one person last looked at, and where it had left its base.
CREATE TABLE change_seen (
    change_id   TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    author      TEXT NOT NULL,
    head        TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    at          BIGINT NOT NULL,
    PRIMARY KEY (change_id, author)
);

-- Comments that are being written.
CREATE TABLE change_drafts (
    id        TEXT NOT NULL PRIMARY KEY,
    change_id TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    author    TEXT NOT NULL,
    client_id TEXT NOT NULL,
    anchor    TEXT NOT NULL,
    body      TEXT NOT NULL,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL
);
CREATE UNIQUE INDEX change_drafts_client_id ON change_drafts (change_id, author, client_id) WHERE client_id <> '';

-- A thread is named after its first comment (thr_X of cmt_X). Without a row it
-- is open, and stands where its comment says.
CREATE TABLE change_threads (
    id          TEXT NOT NULL PRIMARY KEY,
    change_id   TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    anchor      TEXT NOT NULL,
    resolved_by TEXT NOT NULL,
    resolved    BIGINT NOT NULL
);
CREATE INDEX change_threads_change ON change_threads (change_id, id);

-- The thread that a comment answers in; empty when it begins one.
ALTER TABLE comments ADD COLUMN thread TEXT NOT NULL DEFAULT '';
