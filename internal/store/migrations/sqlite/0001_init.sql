-- +goose Up
CREATE TABLE users (
    handle TEXT NOT NULL PRIMARY KEY,
    name   TEXT NOT NULL,
    email  TEXT NOT NULL
);

CREATE TABLE tokens (
    id        TEXT NOT NULL PRIMARY KEY,
    hash      TEXT NOT NULL UNIQUE,
    handle    TEXT NOT NULL REFERENCES users (handle),
    label     TEXT NOT NULL,
    created   BIGINT NOT NULL,
    last_used BIGINT NOT NULL,
    revoked   BIGINT NOT NULL
);

CREATE TABLE environments (
    id             TEXT NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    source         TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    snapshot       TEXT NOT NULL,
    created        BIGINT NOT NULL,
    updated        BIGINT NOT NULL
);

CREATE TABLE builds (
    id          TEXT NOT NULL PRIMARY KEY,
    environment TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    commit_id   TEXT NOT NULL,
    state       TEXT NOT NULL,
    snapshot    TEXT NOT NULL,
    failure     TEXT NOT NULL,
    phases      TEXT NOT NULL,
    created     BIGINT NOT NULL,
    finished    BIGINT NOT NULL
);
CREATE INDEX builds_environment ON builds (environment, id);
CREATE INDEX builds_state ON builds (state);

CREATE TABLE snapshots (
    id          TEXT NOT NULL PRIMARY KEY,
    parent      TEXT NOT NULL,
    environment TEXT NOT NULL,
    session     TEXT NOT NULL,
    build       TEXT NOT NULL,
    commit_id   TEXT NOT NULL,
    state       TEXT NOT NULL,
    bytes       BIGINT NOT NULL,
    memory      BOOLEAN NOT NULL,
    created     BIGINT NOT NULL
);
CREATE INDEX snapshots_environment ON snapshots (environment, id);
CREATE INDEX snapshots_session ON snapshots (session, id);
CREATE INDEX snapshots_state ON snapshots (state);

CREATE TABLE sandboxes (
    id      TEXT NOT NULL PRIMARY KEY,
    purpose TEXT NOT NULL,
    owner   TEXT NOT NULL,
    state   TEXT NOT NULL,
    cause   TEXT NOT NULL,
    handle  TEXT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL
);
CREATE INDEX sandboxes_state ON sandboxes (state);
CREATE INDEX sandboxes_owner ON sandboxes (owner);

CREATE TABLE sessions (
    id                TEXT NOT NULL PRIMARY KEY,
    environment       TEXT NOT NULL REFERENCES environments (id),
    title             TEXT NOT NULL,
    state             TEXT NOT NULL,
    reason            TEXT NOT NULL,
    owner             TEXT NOT NULL,
    owner_name        TEXT NOT NULL,
    owner_email       TEXT NOT NULL,
    blueprint         TEXT NOT NULL,
    agent             TEXT NOT NULL,
    model             TEXT NOT NULL,
    base              TEXT NOT NULL,
    base_commit       TEXT NOT NULL,
    branch            TEXT NOT NULL,
    head              TEXT NOT NULL,
    budget_wall       BIGINT NOT NULL,
    budget_money      BIGINT NOT NULL,
    usage_input       BIGINT NOT NULL,
    usage_cache_read  BIGINT NOT NULL,
    usage_cache_write BIGINT NOT NULL,
    usage_output      BIGINT NOT NULL,
    usage_calls       BIGINT NOT NULL,
    cost_known        BIGINT NOT NULL,
    cost_unknown      BOOLEAN NOT NULL,
    active            BIGINT NOT NULL,
    held              BOOLEAN NOT NULL,
    wait              TEXT NOT NULL,
    sandbox           TEXT NOT NULL,
    snapshot          TEXT NOT NULL,
    change_id         TEXT NOT NULL,
    created           BIGINT NOT NULL,
    updated           BIGINT NOT NULL,
    -- not part of the record
    client_id         TEXT NOT NULL DEFAULT '',
    active_since      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sessions_state ON sessions (state, id);
CREATE INDEX sessions_environment ON sessions (environment, id);
CREATE INDEX sessions_owner ON sessions (owner, id);
CREATE UNIQUE INDEX sessions_client_id ON sessions (owner, client_id) WHERE client_id <> '';

CREATE TABLE prompts (
    id           TEXT NOT NULL PRIMARY KEY,
    session      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    client_id    TEXT NOT NULL,
    author       TEXT NOT NULL,
    author_name  TEXT NOT NULL,
    author_email TEXT NOT NULL,
    text         TEXT NOT NULL,
    source       TEXT NOT NULL,
    state        TEXT NOT NULL,
    position     BIGINT NOT NULL,
    run          TEXT NOT NULL,
    created      BIGINT NOT NULL,
    started      BIGINT NOT NULL,
    finished     BIGINT NOT NULL
);
CREATE UNIQUE INDEX prompts_client_id ON prompts (session, client_id) WHERE client_id <> '';
-- One runner per session, whatever any process believes.
CREATE UNIQUE INDEX prompts_one_running ON prompts (session) WHERE state = 'running';
CREATE INDEX prompts_queue ON prompts (session, position);
CREATE INDEX prompts_state ON prompts (state, author);
CREATE INDEX prompts_started ON prompts (author, started);

CREATE TABLE runs (
    id        TEXT NOT NULL PRIMARY KEY,
    session   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    prompt    TEXT NOT NULL REFERENCES prompts (id) ON DELETE CASCADE,
    blueprint TEXT NOT NULL,
    state     TEXT NOT NULL,
    node      TEXT NOT NULL,
    data      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    verdict   TEXT NOT NULL,
    failure   TEXT NOT NULL,
    created   BIGINT NOT NULL,
    finished  BIGINT NOT NULL
);
CREATE INDEX runs_session ON runs (session, id);
CREATE INDEX runs_prompt ON runs (prompt);

CREATE TABLE attempts (
    id       TEXT NOT NULL PRIMARY KEY,
    run      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    node     TEXT NOT NULL,
    number   BIGINT NOT NULL,
    state    TEXT NOT NULL,
    result   TEXT NOT NULL,
    detail   TEXT NOT NULL,
    started  BIGINT NOT NULL,
    finished BIGINT NOT NULL,
    UNIQUE (run, node, number)
);

CREATE TABLE transcripts (
    run   TEXT NOT NULL,
    node  TEXT NOT NULL,
    seq   BIGINT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (run, node, seq)
);

CREATE TABLE events (
    subject TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    kind    TEXT NOT NULL,
    run     TEXT NOT NULL,
    node    TEXT NOT NULL,
    attempt TEXT NOT NULL,
    actor   TEXT NOT NULL,
    data    TEXT NOT NULL,
    PRIMARY KEY (subject, seq)
);

CREATE TABLE approvals (
    id       TEXT NOT NULL PRIMARY KEY,
    session  TEXT NOT NULL,
    run      TEXT NOT NULL,
    node     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    question TEXT NOT NULL,
    detail   TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    state    TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    note     TEXT NOT NULL,
    deadline BIGINT NOT NULL,
    created  BIGINT NOT NULL,
    decided  BIGINT NOT NULL
);
CREATE INDEX approvals_state ON approvals (state, id);
CREATE INDEX approvals_session ON approvals (session, id);

CREATE TABLE model_calls (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    session           TEXT NOT NULL,
    prompt            TEXT NOT NULL,
    run               TEXT NOT NULL,
    attempt           TEXT NOT NULL,
    provider          TEXT NOT NULL,
    model             TEXT NOT NULL,
    scripted          BOOLEAN NOT NULL,
    outcome           TEXT NOT NULL,
    usage_input       BIGINT NOT NULL,
    usage_cache_read  BIGINT NOT NULL,
    usage_cache_write BIGINT NOT NULL,
    usage_output      BIGINT NOT NULL,
    usage_calls       BIGINT NOT NULL,
    cost_known        BIGINT NOT NULL,
    cost_unknown      BOOLEAN NOT NULL,
    retries           BIGINT NOT NULL,
    duration          BIGINT NOT NULL,
    created           BIGINT NOT NULL
);
CREATE INDEX model_calls_session ON model_calls (session, id);
CREATE INDEX model_calls_created ON model_calls (created);

CREATE TABLE effects (
    id       TEXT NOT NULL PRIMARY KEY,
    kind     TEXT NOT NULL,
    subject  TEXT NOT NULL,
    request  TEXT NOT NULL,
    state    TEXT NOT NULL,
    response TEXT NOT NULL,
    created  BIGINT NOT NULL,
    updated  BIGINT NOT NULL
);
CREATE INDEX effects_state ON effects (state, id);

CREATE TABLE repositories (
    name           TEXT NOT NULL PRIMARY KEY,
    environment    TEXT NOT NULL,
    source         TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    created        BIGINT NOT NULL,
    updated        BIGINT NOT NULL
);

CREATE TABLE changes (
    id           TEXT NOT NULL PRIMARY KEY,
    number       BIGINT NOT NULL,
    repository   TEXT NOT NULL,
    session      TEXT NOT NULL,
    title        TEXT NOT NULL,
    body         TEXT NOT NULL,
    state        TEXT NOT NULL,
    base         TEXT NOT NULL,
    branch       TEXT NOT NULL,
    base_commit  TEXT NOT NULL,
    head         TEXT NOT NULL,
    merge_commit TEXT NOT NULL,
    authors      TEXT NOT NULL,
    evidence     TEXT NOT NULL,
    verdict      TEXT NOT NULL,
    url          TEXT NOT NULL,
    environment  TEXT NOT NULL,
    created      BIGINT NOT NULL,
    updated      BIGINT NOT NULL,
    -- not part of the record
    effect_key   TEXT NOT NULL DEFAULT '',
    UNIQUE (repository, number)
);
CREATE UNIQUE INDEX changes_effect_key ON changes (effect_key) WHERE effect_key <> '';
CREATE INDEX changes_session ON changes (session, id);
CREATE INDEX changes_branch ON changes (repository, branch);
CREATE INDEX changes_state ON changes (state, id);

CREATE TABLE comments (
    id           TEXT NOT NULL PRIMARY KEY,
    change_id    TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    author       TEXT NOT NULL,
    author_name  TEXT NOT NULL,
    author_email TEXT NOT NULL,
    body         TEXT NOT NULL,
    path         TEXT NOT NULL,
    line         BIGINT NOT NULL,
    head         TEXT NOT NULL,
    prompt       TEXT NOT NULL,
    created      BIGINT NOT NULL,
    -- not part of the record
    effect_key   TEXT NOT NULL DEFAULT ''
);
CREATE INDEX comments_change ON comments (change_id, id);
CREATE UNIQUE INDEX comments_effect_key ON comments (effect_key) WHERE effect_key <> '';

CREATE TABLE change_approvals (
    change_id    TEXT NOT NULL REFERENCES changes (id) ON DELETE CASCADE,
    author       TEXT NOT NULL,
    author_name  TEXT NOT NULL,
    author_email TEXT NOT NULL,
    head         TEXT NOT NULL,
    note         TEXT NOT NULL,
    created      BIGINT NOT NULL,
    PRIMARY KEY (change_id, author, head)
);

CREATE TABLE evidence (
    id      TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL,
    run     TEXT NOT NULL,
    verdict TEXT NOT NULL,
    digest  TEXT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX evidence_session ON evidence (session, id);

CREATE TABLE cells (
    cell_key TEXT NOT NULL PRIMARY KEY,
    result   TEXT NOT NULL,
    created  BIGINT NOT NULL
);

CREATE TABLE case_history (
    repository TEXT NOT NULL,
    check_name TEXT NOT NULL,
    case_id    TEXT NOT NULL,
    commit_id  TEXT NOT NULL,
    cell       TEXT NOT NULL,
    status     TEXT NOT NULL,
    at         BIGINT NOT NULL
);
CREATE INDEX case_history_case ON case_history (repository, check_name, case_id, at);

CREATE TABLE leases (
    name    TEXT NOT NULL PRIMARY KEY,
    owner   TEXT NOT NULL,
    fence   BIGINT NOT NULL,
    expires BIGINT NOT NULL
);
