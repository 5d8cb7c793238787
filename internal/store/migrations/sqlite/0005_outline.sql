-- +goose Up
-- What is known of a session's log without reading it. Kept up to date in the
-- transaction that appends; made from the log for sessions of before.
CREATE TABLE session_facts (
    session        TEXT NOT NULL PRIMARY KEY,
    parent         TEXT NOT NULL,
    settled        BIGINT NOT NULL,
    state_at       BIGINT NOT NULL,
    turn           TEXT NOT NULL,
    tool           TEXT NOT NULL,
    verdict_reason TEXT NOT NULL,
    files          BIGINT NOT NULL,
    added          BIGINT NOT NULL,
    removed        BIGINT NOT NULL,
    sandbox        TEXT NOT NULL,
    snapshot       TEXT NOT NULL,
    started_from   TEXT NOT NULL,
    fallback       TEXT NOT NULL
);
CREATE INDEX session_facts_parent ON session_facts (parent) WHERE parent <> '';

CREATE TABLE session_turns (
    prompt      TEXT NOT NULL PRIMARY KEY,
    session     TEXT NOT NULL,
    run         TEXT NOT NULL,
    first_seq   BIGINT NOT NULL,
    tools       BIGINT NOT NULL,
    files       BIGINT NOT NULL,
    errors      BIGINT NOT NULL,
    cost        BIGINT NOT NULL,
    cost_unknown BOOLEAN NOT NULL,
    answer_seq  BIGINT NOT NULL,
    answer_head TEXT NOT NULL,
    nodes       BIGINT NOT NULL,
    marks       BIGINT NOT NULL
);
CREATE INDEX session_turns_session ON session_turns (session, first_seq);

CREATE TABLE turn_nodes (
    session  TEXT NOT NULL,
    seq      BIGINT NOT NULL,
    prompt   TEXT NOT NULL,
    node     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    title    TEXT NOT NULL,
    number   BIGINT NOT NULL,
    state    TEXT NOT NULL,
    result   TEXT NOT NULL,
    started  BIGINT NOT NULL,
    duration BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX turn_nodes_prompt ON turn_nodes (prompt, node, number);

CREATE TABLE turn_marks (
    session TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    prompt  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    PRIMARY KEY (session, seq)
);

-- How far a person has read a session's log.
CREATE TABLE read_marks (
    person  TEXT NOT NULL,
    session TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    PRIMARY KEY (person, session)
);

CREATE INDEX sessions_updated ON sessions (updated, id);
