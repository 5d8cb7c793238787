-- +goose Up
-- What a token is for: api (a program sends it), web (a browser holds it).
ALTER TABLE tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'api';
-- The token that a web token was made with: it ends with it.
ALTER TABLE tokens ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX tokens_parent ON tokens (parent) WHERE parent <> '';
CREATE INDEX tokens_handle ON tokens (handle, kind, id);
