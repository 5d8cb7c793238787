// Generated from docs/openapi.json by `npm run types`; do not edit.

export type paths = {
    "/api/v1/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Questions that runs ask people */
        get: operations["list-approvals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/approvals/{id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answer a question */
        post: operations["approve-approval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/approvals/{id}/deny": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answer a question */
        post: operations["deny-approval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A consistent copy of the daemon's state as a tar */
        post: operations["backup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blobs/{digest}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A picture or a log, by digest */
        get: operations["get-blob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/builds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Build an environment; progress are the events of the build */
        post: operations["create-build"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/builds/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One build */
        get: operations["get-build"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/builds/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of a build, as a stream that can be resumed */
        get: operations["build-events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/capacity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the host has room for, and who waits */
        get: operations["capacity"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List changes, newest first */
        get: operations["list-changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One change with commits, comments and approvals; by identifier, ENVIRONMENT#NUMBER or NUMBER */
        get: operations["get-change"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Approve one commit of a change; its prompt's author may not */
        post: operations["approve-change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/checks/{check}/cases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Cases of one check, kept ones too */
        get: operations["change-cases"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Close a change without merging */
        post: operations["close-change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/comments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Comment on a change, or on a line of it */
        post: operations["comment-change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Unified diff of a change */
        get: operations["change-diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/drafts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Comments that you are writing */
        get: operations["list-change-drafts"];
        put?: never;
        /** Keep a comment that you are writing; nobody else sees it */
        post: operations["create-change-draft"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/drafts/{draft}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Throw a draft of yours away */
        delete: operations["remove-change-draft"];
        options?: never;
        head?: never;
        /** Change a draft of yours */
        patch: operations["edit-change-draft"];
        trace?: never;
    };
    "/api/v1/changes/{id}/drafts/send": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make comments of all your drafts; for the agent they are one prompt */
        post: operations["send-change-drafts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Files that differ, in reading order */
        get: operations["change-files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/hand-back": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a change back to the agent, as a prompt */
        post: operations["hand-back"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/merge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Merge a change */
        post: operations["merge-change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/page": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that the page of a change shows at once */
        get: operations["change-page"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/patches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Patches of many files, one object a line */
        get: operations["change-patches"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/reopen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Open a closed change again */
        post: operations["reopen-change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Search the lines of a change's patches */
        get: operations["change-search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/seen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Remember the head that you have looked at */
        put: operations["mark-seen"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was said about a change, where it stands now, and your drafts */
        get: operations["change-threads"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes/{id}/viewed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Mark a file as looked at, by you; the mark belongs to its content */
        put: operations["mark-viewed"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/drafts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Somebody has begun to type: a warm sandbox is kept for the prompt */
        post: operations["create-draft"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/drafts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** There will be no prompt: the sandbox goes back */
        delete: operations["return-draft"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/environments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List environments by name */
        get: operations["list-environments"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/environments/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One environment, by name or identifier */
        get: operations["get-environment"];
        put?: never;
        post?: never;
        /** Remove an environment with its builds and snapshots */
        delete: operations["remove-environment"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/environments/{id}/builds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Builds of an environment, newest first */
        get: operations["list-builds"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/environments/{id}/recipe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The file the environment was last built from */
        get: operations["get-recipe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/environments/{id}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Use an earlier good snapshot again, until the base branch moves on or somebody builds the environment */
        post: operations["rollback-environment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evidence/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The manifest of a bundle */
        get: operations["get-evidence"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evidence/{id}/bundle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The whole bundle as a tar, for evidence verify */
        get: operations["evidence-bundle"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evidence/{id}/files/{digest}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One artifact that the manifest names */
        get: operations["evidence-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evidence/{id}/rerun": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run a proof again; events, then one event named result */
        post: operations["rerun-evidence"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What needs you, what runs, and the rest: the first page of each */
        get: operations["inbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/inbox/{section}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One page of a section of the inbox */
        get: operations["inbox-section"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign this browser in with a token or a one-use code; only for the page itself */
        post: operations["login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/login-codes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A one-use code to sign a browser in as the holder of this token */
        post: operations["create-login-code"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign this browser out: its cookie is worth nothing any more */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{id}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Attempts of a run, in order */
        get: operations["list-attempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sandboxes there are now */
        get: operations["list-sandboxes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/selections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List selections, newest first */
        get: operations["list-selections"];
        put?: never;
        /** One task for several sessions that start alike; stored when answered */
        post: operations["create-selection"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/selections/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A selection, its sessions compared, best first */
        get: operations["get-selection"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/selections/{id}/pick": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Pick one session; the others are stopped, their changes closed, and archived */
        post: operations["pick-session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List sessions, newest first */
        get: operations["list-sessions"];
        put?: never;
        /** New session with its first prompt; stored when answered */
        post: operations["create-session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session */
        get: operations["get-session"];
        put?: never;
        post?: never;
        /** Archive a session: its sandbox goes, its log stays */
        delete: operations["archive-session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/budget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Raise the budget of a session */
        put: operations["set-budget"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/continue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Go on after a stop, a failure or a hand-over */
        post: operations["continue-session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the session changed so far, against its base */
        get: operations["session-diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of a session, as a stream that can be resumed */
        get: operations["session-events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/events/{seq}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One event of a session, whole */
        get: operations["session-event"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Bytes of one file of the workspace, at most 8 MiB */
        get: operations["session-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a directory of the workspace */
        get: operations["session-files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** New sessions that go on from where this one is, memory included */
        post: operations["fork-session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/page": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A session as a page opens it: state, outline of its log, queue, change, people; go on with the events after seq */
        get: operations["session-page"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/ports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Ports of a session: those that its recipe declares, and those that something listens on */
        get: operations["list-ports"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/presence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Say that you look at a session; forgotten after 45 seconds */
        put: operations["presence"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/previews": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A way into the preview of a port: an address that works once, within 30 seconds */
        post: operations["open-preview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/prompts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Prompts of a session, in order */
        get: operations["list-prompts"];
        put?: never;
        /** Queue a follow-up; stored when answered */
        post: operations["create-prompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/prompts/{prompt}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Withdraw a queued prompt */
        delete: operations["remove-prompt"];
        options?: never;
        head?: never;
        /** Change the text of a queued prompt */
        patch: operations["edit-prompt"];
        trace?: never;
    };
    "/api/v1/sessions/{id}/prompts/{prompt}/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Move a queued prompt within the queue */
        post: operations["move-prompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/prompts/{prompt}/now": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop what runs, and then run this queued prompt */
        post: operations["prompt-now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** You have read a session up to a number; the mark only goes forward */
        put: operations["mark-read"];
        post?: never;
        /** The session is unread for you again */
        delete: operations["mark-unread"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Runs of a session */
        get: operations["list-runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of a session that have words in one of their texts, newest first */
        get: operations["search-session"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop the run under way; the work so far is kept */
        post: operations["stop-session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}/terminal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Run a command in the sandbox over a WebSocket: ExecRequest first, then bytes both ways, ExecEnd last */
        get: operations["session-terminal"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List snapshots, newest first */
        get: operations["list-snapshots"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One snapshot, what it is made of and who needs it */
        get: operations["get-snapshot"];
        put?: never;
        post?: never;
        /** Remove a snapshot that nothing needs */
        delete: operations["remove-snapshot"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots/{id}/push": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send a snapshot to a registry as an OCI image; progress, then one event named result */
        post: operations["push-snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots/{id}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Read everything of a snapshot that can be checked, and say what is damaged */
        post: operations["verify-snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots/collect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Remove every snapshot and memory image that nothing needs, and say why the others stay */
        post: operations["collect-snapshots"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/snapshots/pull": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Bring a snapshot here from a registry; progress, then one event named result */
        post: operations["pull-snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that one browser shows, as one stream that can be resumed */
        get: operations["stream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/streams/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Change what a stream brings, without a new connection */
        put: operations["change-stream"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Resolve a thread, or open it again */
        put: operations["set-thread"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{id}/comments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answer in a thread */
        post: operations["reply-thread"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tokens, without their secrets */
        get: operations["list-tokens"];
        put?: never;
        /** Make a token for a person; its secret is shown once */
        post: operations["create-token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a token */
        delete: operations["revoke-token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tokens, cost and outcomes */
        get: operations["usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/whoami": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who the token belongs to, and the daemon's version */
        get: operations["whoami"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
};
export type webhooks = Record<string, never>;
export type components = {
    schemas: {
        Anchor: {
            base?: string;
            /** Format: int64 */
            end_line?: number;
            head: string;
            hunk?: string;
            /** Format: int64 */
            line?: number;
            path?: string;
            raw?: string;
            /** @enum {string} */
            side?: "old" | "new";
        };
        AnchorNow: {
            /** Format: int64 */
            end_line?: number;
            /** Format: int64 */
            line: number;
            path?: string;
            raw?: string;
        };
        Answer: {
            note?: string;
        };
        Approval: {
            /** @description whose prompt led here; that person may not answer */
            asked_by: string;
            /** Format: date-time */
            created: string;
            /** Format: date-time */
            deadline?: string;
            /** Format: date-time */
            decided?: string;
            decided_by?: string;
            detail?: unknown;
            id: string;
            /** @description what is asked for, a fixed word */
            kind: string;
            node?: string;
            note?: string;
            /** @description one sentence for people */
            question: string;
            run?: string;
            session: string;
            state: string;
        };
        ApproveChange: {
            /** @description the commit that was looked at; refused when the change has moved on */
            head: string;
            note?: string;
        };
        Attempt: {
            detail?: unknown;
            /** Format: date-time */
            finished?: string;
            id: string;
            node: string;
            /** Format: int64 */
            number: number;
            result?: string;
            run: string;
            /** Format: date-time */
            started: string;
            state: string;
        };
        Author: {
            email: string;
            handle: string;
            name: string;
        };
        Budget: {
            /** Format: int64 */
            microusd?: number;
            /** Format: int64 */
            wall_clock_ns?: number;
        };
        Build: {
            by?: string;
            commit: string;
            /** Format: date-time */
            created: string;
            environment: string;
            failure?: components["schemas"]["Failure"];
            /** Format: date-time */
            finished?: string;
            id: string;
            phases: components["schemas"]["Phase"][] | null;
            reason?: string;
            snapshot?: string;
            state: string;
        };
        Candidate: {
            /** Format: int64 */
            active_ns: number;
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            broken: number;
            change?: string;
            /** Format: int64 */
            change_number?: number;
            change_state?: string;
            cost: components["schemas"]["Cost"];
            ended: boolean;
            evidence?: string;
            /** Format: int64 */
            files: number;
            /** Format: date-time */
            finished?: string;
            /** Format: int64 */
            fixed: number;
            head?: string;
            /** Format: int64 */
            kept: number;
            model: string;
            node?: string;
            not_shown?: string[] | null;
            outcome?: string;
            picked?: boolean;
            /** Format: int64 */
            rank: number;
            reasons?: string[] | null;
            /** Format: int64 */
            removed: number;
            run_state?: string;
            /** Format: int64 */
            seed: number;
            session: string;
            state: string;
            unseeded?: boolean;
            usage: components["schemas"]["Usage"];
            verdict?: string;
        };
        Capacity: {
            /**
             * Format: int64
             * @description sandboxes that work, and sessions that will have one
             */
            busy: number;
            /** Format: int64 */
            busy_limit: number;
            /** @description of the state directory */
            disk: components["schemas"]["Room"];
            hint?: string;
            memory: components["schemas"]["Room"];
            /** Format: int64 */
            processors: number;
            /**
             * Format: int64
             * @description sessions that wait for a runner
             */
            queued: number;
            /** @description what a new session waits for */
            reason?: string;
            /**
             * Format: int64
             * @description sessions
             */
            running: number;
            /** Format: int64 */
            running_limit: number;
            /** @description that live, by purpose */
            sandboxes: {
                [key: string]: number;
            };
            /** @description open, or full: and what is short (memory, disk, processors) */
            state: string;
            /** @description sandboxes that wait for room, first first */
            waiting: components["schemas"]["WaitingSandbox"][];
        };
        Change: {
            authors: components["schemas"]["Author"][] | null;
            base: string;
            base_commit: string;
            body: string;
            branch: string;
            candidate?: string;
            /** Format: date-time */
            created: string;
            environment?: string;
            evidence?: string;
            head: string;
            id: string;
            merge?: string;
            /** Format: int64 */
            number: number;
            repository: string;
            session?: string;
            state: string;
            title: string;
            /** Format: date-time */
            updated: string;
            url?: string;
            verdict?: string;
        };
        ChangeApproval: {
            by: components["schemas"]["Author"];
            change: string;
            /** Format: date-time */
            created: string;
            head: string;
            note?: string;
        };
        ChangeBrief: {
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            files: number;
            id: string;
            /** Format: int64 */
            number: number;
            /** Format: int64 */
            removed: number;
            state: string;
            verdict?: string;
        };
        ChangeDetail: {
            approvals: components["schemas"]["ChangeApproval"][];
            change: components["schemas"]["Change"];
            comments: components["schemas"]["Comment"][];
            commits: components["schemas"]["Commit"][];
        };
        ChangeDiff: {
            /** Format: int64 */
            added: number;
            base: string;
            /** Format: int64 */
            count: number;
            digest: string;
            from: string;
            groups: components["schemas"]["DiffGroup"][];
            interdiff?: boolean;
            items: components["schemas"]["DiffFile"][];
            /** Format: int64 */
            more?: number;
            /** Format: int64 */
            removed: number;
            to: string;
        };
        ChangePage: {
            actions: string[];
            approvals: components["schemas"]["ChangeApproval"][];
            change: components["schemas"]["Change"];
            checks: components["schemas"]["PageCheck"][];
            commits: components["schemas"]["PageCommit"][];
            environment?: components["schemas"]["PageEnvironment"];
            files: components["schemas"]["PageFiles"];
            me: components["schemas"]["PageMe"];
            meaning: components["schemas"]["PageMeaning"][];
            pictures: components["schemas"]["PagePicture"][];
            session?: components["schemas"]["PageSession"];
            threads: components["schemas"]["PageThreads"];
            verdict: components["schemas"]["PageVerdict"];
        };
        Collected: {
            /**
             * Format: int64
             * @description freed by all of it
             */
            bytes: number;
            dry_run?: boolean;
            /** @description snapshots whose memory images were dropped; their files stay */
            images: string[];
            kept: components["schemas"]["Kept"][];
            /**
             * Format: int64
             * @description directories that no snapshot named any more
             */
            layers?: number;
            /** @description bytes of other things that were removed: base images, blobs */
            other?: {
                [key: string]: number;
            };
            removed: string[];
        };
        Comment: {
            author: components["schemas"]["Author"];
            body: string;
            change: string;
            /** Format: date-time */
            created: string;
            head?: string;
            id: string;
            /** Format: int64 */
            line?: number;
            path?: string;
            prompt?: string;
            thread?: string;
        };
        Commit: {
            author: string;
            body?: string;
            committer?: string;
            email: string;
            id: string;
            subject: string;
            /** Format: date-time */
            time: string;
        };
        Control: {
            eof?: boolean;
            resize?: components["schemas"]["Size"];
            signal?: string;
        };
        Cost: {
            /** Format: int64 */
            known_microusd: number;
            unknown?: boolean;
        };
        CreateBuild: {
            /** @description from scratch and with a fresh base image, even if nothing has changed */
            fresh?: boolean;
            /** @description default: last part of the source */
            name?: string;
            /** @description branch, tag or commit; default the default branch */
            ref?: string;
            /** @description URL or absolute path of a repository; may be left out for an environment that exists */
            source?: string;
        };
        CreateComment: {
            body: string;
            /** Format: int64 */
            line?: number;
            path?: string;
        };
        CreateDraft: {
            /** @description name or identifier */
            environment: string;
        };
        CreatedSession: {
            prompt: components["schemas"]["Prompt"];
            session: components["schemas"]["Session"];
        };
        CreatedToken: {
            secret: string;
            token: components["schemas"]["Token"];
        };
        CreatePrompt: {
            /** @description the client's own id: a retry with it is not a second prompt */
            client_id?: string;
            text: string;
        };
        CreateSelection: {
            agent?: string;
            /** @description branch the work is for; its commit is fixed for all */
            base?: string;
            blueprint?: string;
            /** @description money of the whole, divided evenly; wall clock of each session */
            budget?: components["schemas"]["Budget"];
            /** @description the client's own id: a retry with it is not a second selection */
            client_id?: string;
            /** @description name or identifier */
            environment: string;
            /** @description given to the sessions in turn; default that of the configuration */
            models?: string[] | null;
            /** @description the task, in words; the same for all */
            prompt: string;
            /**
             * @description who picks; default person
             * @enum {string}
             */
            rule?: "person" | "first-proven" | "smallest" | "cheapest" | "fastest";
            /**
             * Format: int64
             * @description how many; their seeds count from 1
             */
            sessions: number;
            title?: string;
        };
        CreateSession: {
            agent?: string;
            /** @description branch the work is for */
            base?: string;
            blueprint?: string;
            budget?: components["schemas"]["Budget"];
            /** @description the client's own id: a retry with it is not a second session */
            client_id?: string;
            /** @description of POST /drafts: the sandbox that was claimed for this */
            draft?: string;
            /** @description name or identifier */
            environment: string;
            model?: string;
            /** @description the task, in words */
            prompt: string;
            title?: string;
        };
        CreateToken: {
            email?: string;
            handle: string;
            /** @description what it is for */
            label?: string;
            name?: string;
        };
        CutText: {
            /**
             * Format: int64
             * @description bytes of the whole
             */
            size: number;
            tail?: string;
        };
        Diff: {
            base?: string;
            /** @description true when it was longer than the daemon sends */
            cut?: boolean;
            diff: string;
            head?: string;
        };
        Difference: {
            is: string;
            was: string;
            where: string;
        };
        DiffFile: {
            /** Format: int64 */
            added: number;
            base_moved?: boolean;
            changed_since_viewed?: boolean;
            coverage?: components["schemas"]["LineCoverage"];
            /** Format: int64 */
            group: number;
            /** @enum {string} */
            kind: "text" | "binary" | "symlink" | "submodule" | "large";
            mode_new?: string;
            mode_old?: string;
            /** Format: int64 */
            n: number;
            new_blob?: string;
            old_blob?: string;
            old_path?: string;
            old_raw?: string;
            path: string;
            raw?: string;
            /** Format: int64 */
            removed: number;
            /** @enum {string} */
            role: "source" | "test" | "ci" | "lock" | "rules" | "protected" | "generated" | "vendor" | "docs";
            /** Format: int64 */
            size: number;
            /** @enum {string} */
            status: "added" | "modified" | "deleted" | "renamed" | "copied" | "type" | "mode";
            viewed: boolean;
            why?: string;
        };
        DiffGroup: {
            files: number[];
            /** @enum {string} */
            mode: "first" | "read" | "skim";
            name: string;
            why: string;
        };
        DiffHit: {
            /** Format: int64 */
            line: number;
            /** Format: int64 */
            n: number;
            /** @enum {string} */
            side: "old" | "new";
            text: string;
        };
        DiffHits: {
            capped?: boolean;
            items: components["schemas"]["DiffHit"][];
            /** Format: int64 */
            total: number;
        };
        Draft: {
            environment: string;
            /** Format: date-time */
            expires: string;
            id: string;
            /** @description a sandbox waits for it; without one the session starts as always */
            warm: boolean;
        };
        EditPrompt: {
            text: string;
        };
        Environment: {
            /** Format: date-time */
            created: string;
            default_branch: string;
            freshness?: components["schemas"]["Freshness"];
            id: string;
            name: string;
            snapshot?: string;
            source: string;
            /** Format: date-time */
            updated: string;
        };
        EnvironmentBrief: {
            id: string;
            name: string;
        };
        Error: {
            /**
             * @description class of the failure, a stable word
             * @example not_found
             */
            code: string;
            /** @description what to do about it */
            hint?: string;
            /** @description of the log entry, on faults of the daemon */
            id?: string;
            /** @description what happened, naming the object */
            message: string;
        };
        Event: {
            actor?: string;
            attempt?: string;
            data: unknown;
            kind: string;
            node?: string;
            run?: string;
            /** Format: int64 */
            seq: number;
            subject: string;
            /** Format: date-time */
            time: string;
        };
        Evidence: {
            /** @description of the manifest's bytes */
            digest: string;
            id: string;
            manifest: unknown;
        };
        EvidenceBrief: {
            /** Format: date-time */
            created: string;
            id: string;
            verdict: string;
        };
        ExecEnd: {
            error?: components["schemas"]["Error"];
            /** Format: int64 */
            exit_code: number;
            signal?: string;
        };
        ExecRequest: {
            argv: string[] | null;
            dir?: string;
            env?: string[] | null;
            pty?: components["schemas"]["Size"];
            stdin?: boolean;
        };
        Failure: {
            code: string;
            command?: string;
            hint?: string;
            message: string;
            output?: string;
        };
        FileInfo: {
            /** Format: date-time */
            mod_time: string;
            /** Format: int32 */
            mode: number;
            path: string;
            /** Format: int64 */
            size: number;
            target?: string;
        };
        Forked: {
            children: components["schemas"]["ForkedSession"][];
            parent: string;
            /**
             * Format: int64
             * @description how long the parent stood still; 0 when it was suspended
             */
            paused_ns: number;
            /** @description the instant, that all of them start from */
            snapshot: string;
        };
        ForkedSession: {
            error?: string;
            /** @description memory, or files when the memory could not be used */
            from?: string;
            /**
             * Format: int64
             * @description from the request until its sandbox answered
             */
            ready_ns?: number;
            session: components["schemas"]["Session"];
        };
        ForkSession: {
            /**
             * Format: int64
             * @description how many; default 1
             */
            count?: number;
            /** @description queued in each of them */
            prompt?: string;
        };
        Found: {
            /** @description there are more than were counted */
            capped?: boolean;
            hits: components["schemas"]["Hit"][];
            /** @description cursor of the next page */
            next?: string;
            /**
             * Format: int64
             * @description events that match; only with the first page
             */
            total?: number;
        };
        Freshness: {
            build?: string;
            /** Format: date-time */
            checked?: string;
            commit?: string;
            failure?: components["schemas"]["Failure"];
            /** Format: int64 */
            failures?: number;
            head?: string;
            /** Format: date-time */
            made?: string;
            /** Format: int64 */
            max_age_ns: number;
            /** Format: date-time */
            next_build?: string;
            next_reason?: string;
            old?: boolean;
            pinned?: string;
            /** Format: date-time */
            pinned_at?: string;
            pinned_by?: string;
            /** Format: int64 */
            refresh_ns: number;
            /** Format: date-time */
            stale_since?: string;
            state: string;
            why?: string;
        };
        HandBack: {
            /** @description the client's own id: a retry with it is not a second prompt */
            client_id?: string;
            note: string;
        };
        Hello: {
            /** @description sessions that are followed, and after which number */
            sessions: {
                [key: string]: number;
            };
            /** @description for PUT /streams/{id} */
            stream: string;
            /** Format: date-time */
            time: string;
            version: string;
            /** @description digest of the page that this daemon serves */
            web: string;
        };
        Here: {
            /** @description the tab's own id */
            client: string;
            /** @description does not look any more */
            left?: boolean;
            typing?: boolean;
        };
        Hit: {
            kind: string;
            /** Format: int64 */
            seq: number;
            /** @description the words with what is around them */
            snippet: string;
            /** Format: date-time */
            time: string;
            /** @description prompt whose turn it is in */
            turn?: string;
        };
        Inbox: {
            needs: components["schemas"]["InboxPart"];
            recent: components["schemas"]["InboxPart"];
            running: components["schemas"]["InboxPart"];
        };
        InboxCounts: {
            /** Format: int64 */
            needs: number;
            /** Format: int64 */
            running: number;
        };
        InboxPart: {
            /**
             * Format: int64
             * @description of the whole section
             */
            count: number;
            items: components["schemas"]["InboxRow"][];
            /** @description cursor of the next page of GET /inbox/{section} */
            next?: string;
        };
        InboxRow: {
            change?: components["schemas"]["ChangeBrief"];
            /**
             * Format: int64
             * @description time in runs, up to now
             */
            elapsed_ns: number;
            environment_name: string;
            /** @description session it was forked from */
            parent?: string;
            /**
             * Format: int64
             * @description the person's read mark
             */
            read: number;
            /** @description the time goes on */
            running: boolean;
            /**
             * @description where it belongs now; left out when archived
             * @enum {string}
             */
            section?: "needs" | "running" | "recent";
            /**
             * Format: int64
             * @description number of its newest event
             */
            seq: number;
            session: components["schemas"]["Session"];
            unread: boolean;
        };
        Kept: {
            /** @description who needs its files */
            by: string[];
            /**
             * Format: int64
             * @description of its own files and memory image
             */
            bytes: number;
            id: string;
            /** @description who needs its memory image */
            memory?: string[] | null;
        };
        Layer: {
            /** @description digest of a base image */
            base?: string;
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            files: number;
            /** @description written by running services, and goes with a memory image */
            live?: boolean;
            /**
             * Format: int64
             * @description how many layers it was merged from
             */
            merged?: number;
            /** @description whose it is */
            snapshot?: string;
        };
        Limits: {
            /** Format: double */
            cpu?: number;
            /** Format: int64 */
            disk?: number;
            /** Format: int64 */
            lifetime_ns?: number;
            /** Format: int64 */
            memory?: number;
            /** Format: int64 */
            pids?: number;
        };
        LineCoverage: {
            /** Format: int64 */
            hit: number;
            /** Format: int64 */
            of: number;
        };
        ListApproval: {
            items: components["schemas"]["Approval"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListAttempt: {
            items: components["schemas"]["Attempt"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListBuild: {
            items: components["schemas"]["Build"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListChange: {
            items: components["schemas"]["Change"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListEnvironment: {
            items: components["schemas"]["Environment"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListFileInfo: {
            items: components["schemas"]["FileInfo"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListNote: {
            items: components["schemas"]["Note"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListPageCase: {
            items: components["schemas"]["PageCase"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListPrompt: {
            items: components["schemas"]["Prompt"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListReadEvent: {
            items: components["schemas"]["ReadEvent"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListRun: {
            items: components["schemas"]["Run"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListSandbox: {
            items: components["schemas"]["Sandbox"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListSelection: {
            items: components["schemas"]["Selection"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListSession: {
            items: components["schemas"]["Session"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListSnapshot: {
            items: components["schemas"]["Snapshot"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListThread: {
            items: components["schemas"]["Thread"][];
            /** @description cursor of the next page */
            next?: string;
        };
        ListToken: {
            items: components["schemas"]["Token"][];
            /** @description cursor of the next page */
            next?: string;
        };
        Login: {
            /** @description a token, or a one-use code */
            secret: string;
        };
        LoginCode: {
            /** @description 8 letters; case, spaces and dashes do not matter */
            code: string;
            /** Format: date-time */
            expires: string;
            /** @description of the page, where the configuration names one */
            url?: string;
        };
        MarkRead: {
            /**
             * Format: int64
             * @description number of the last event that was shown
             */
            seq: number;
        };
        MarkSeen: {
            head: string;
        };
        MarkViewed: {
            /** @description new_blob of the list of files; empty for a deleted file */
            blob?: string;
            path: string;
            /** @description of the list of files, where there is one */
            raw?: string;
            viewed: boolean;
        };
        MemoryImage: {
            /** Format: int64 */
            bytes: number;
            /** Format: date-time */
            created: string;
            /** @description digest of the only build of the runtime that can restore it */
            runtime: string;
            /** @description that were ready */
            services?: string[] | null;
            /** @description who needs it */
            users?: string[] | null;
        };
        MergeChange: {
            /** @description refuse when the change has moved on from this commit */
            head?: string;
            /**
             * @description default merge
             * @enum {string}
             */
            method?: "merge" | "squash" | "rebase";
        };
        MovePrompt: {
            /**
             * Format: int64
             * @description 0 is next
             */
            position: number;
        };
        Note: {
            anchor: components["schemas"]["Anchor"];
            body: string;
            change: string;
            client_id?: string;
            /** Format: date-time */
            created: string;
            id: string;
            /** Format: date-time */
            updated: string;
        };
        OpenPreview: {
            /** @description also a port that the recipe does not declare */
            any?: boolean;
            /** Format: int64 */
            port: number;
        };
        OutlineAnswer: {
            /** @description its first 400 characters */
            head: string;
            /** Format: int64 */
            seq: number;
        };
        OutlineMark: {
            /** @enum {string} */
            kind: "question" | "approval" | "denied" | "error" | "warning" | "verdict" | "change" | "picture";
            /** Format: int64 */
            seq: number;
        };
        OutlineNode: {
            /** Format: int64 */
            duration_ns?: number;
            node: string;
            /**
             * Format: int64
             * @description of the attempt, from 1
             */
            number: number;
            result?: string;
            /**
             * Format: int64
             * @description of its node.started
             */
            seq: number;
            /** Format: date-time */
            started: string;
            /**
             * @description cut: the run ended in it
             * @enum {string}
             */
            state: "running" | "done" | "cut";
            title: string;
        };
        OutlineTurn: {
            /** @description newest text of the agent */
            answer?: components["schemas"]["OutlineAnswer"];
            author: components["schemas"]["Author"];
            /** Format: int64 */
            cost_microusd: number;
            /** @description a model without a price was used */
            cost_unknown?: boolean;
            /**
             * Format: int64
             * @description calls of tools that failed
             */
            errors: number;
            /**
             * Format: int64
             * @description changed against the base, when it committed
             */
            files: number;
            /** Format: date-time */
            finished?: string;
            /** Format: int64 */
            first_seq: number;
            /** Format: int64 */
            last_seq: number;
            marks: components["schemas"]["OutlineMark"][];
            /**
             * Format: int64
             * @description marks that were too many
             */
            marks_left_out?: number;
            nodes: components["schemas"]["OutlineNode"][];
            prompt: string;
            run?: string;
            source: string;
            /** Format: date-time */
            started?: string;
            state: string;
            /** @description its first 400 characters */
            text: string;
            /**
             * Format: int64
             * @description calls
             */
            tools: number;
        };
        PageAt: {
            digest: string;
            /** Format: int64 */
            line: number;
        };
        PageBudget: {
            /** Format: int64 */
            active_ns: number;
            /**
             * Format: int64
             * @description left out: no bound
             */
            money_microusd?: number;
            /** Format: int64 */
            spent_microusd: number;
            /** @description a model without a price was used */
            spent_unknown?: boolean;
            /**
             * Format: int64
             * @description left out: no bound
             */
            wall_clock_ns?: number;
        };
        PageCase: {
            at?: components["schemas"]["PageAt"];
            cells: {
                [key: string]: string;
            };
            /** @enum {string} */
            class: "fixed" | "broken" | "still_red" | "new" | "gone" | "flaky" | "changed" | "skipped" | "still_skipped" | "kept";
            id: string;
            message?: string;
            name: string;
            note?: string;
            suite?: string;
            weak?: boolean;
        };
        PageCell: {
            cached?: boolean;
            /** Format: int64 */
            duration_ns: number;
            /** Format: int64 */
            exit_code: number;
            /** Format: int64 */
            failed: number;
            log?: components["schemas"]["PageFile"];
            /** Format: int64 */
            passed: number;
            /** @enum {string} */
            result: "green" | "red" | "died" | "timed_out";
            /** Format: int64 */
            skipped: number;
        };
        PageCheck: {
            cases: components["schemas"]["PageCase"][];
            cells: {
                [key: string]: components["schemas"]["PageCell"];
            };
            check: string;
            counts: {
                [key: string]: number;
            };
            /** Format: int64 */
            kept: number;
            /** Format: int64 */
            more?: number;
            optional?: boolean;
        };
        PageCommit: {
            author: string;
            id: string;
            subject: string;
            /** Format: date-time */
            time: string;
        };
        PageDifference: {
            digest?: string;
            /** Format: double */
            noise: number;
            /** Format: double */
            share: number;
        };
        PageEnvironment: {
            id: string;
            name: string;
        };
        PageFile: {
            digest: string;
            /** Format: int64 */
            size: number;
        };
        PageFiles: {
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            count: number;
            digest: string;
            /** Format: int64 */
            removed: number;
        };
        PageImage: {
            digest: string;
            /** Format: int64 */
            height: number;
            /** Format: int64 */
            width: number;
        };
        PageMe: {
            approved: boolean;
            author_of_prompt: boolean;
            may_approve: boolean;
            may_merge: boolean;
            seen?: components["schemas"]["SeenMark"];
            why_not?: string;
            why_not_merge?: string;
        };
        PageMeaning: {
            kind: string;
            /** Format: int64 */
            line?: number;
            new?: string;
            old?: string;
            path?: string;
            /** @enum {string} */
            risk: "note" | "look" | "stop";
            text: string;
        };
        PagePicture: {
            after?: components["schemas"]["PageImage"];
            before?: components["schemas"]["PageImage"];
            difference?: components["schemas"]["PageDifference"];
            name: string;
            /** @enum {string} */
            status: "same" | "changed" | "new" | "gone" | "not_taken";
            viewport?: string;
            why?: string;
        };
        PagePrompt: {
            author: components["schemas"]["Author"];
            client_id?: string;
            /** Format: date-time */
            created: string;
            /** @description the text is only its first 4000 characters */
            cut?: boolean;
            /** Format: date-time */
            finished?: string;
            id: string;
            /** Format: int64 */
            position: number;
            run?: string;
            session: string;
            source: string;
            /** Format: date-time */
            started?: string;
            state: string;
            text: string;
        };
        PageRun: {
            /** Format: date-time */
            created: string;
            failure?: components["schemas"]["Failure"];
            /** Format: date-time */
            finished?: string;
            id: string;
            outcome?: string;
            prompt: string;
            state: string;
            verdict?: string;
        };
        PageSession: {
            id: string;
            state: string;
            title: string;
        };
        PageSnapshot: {
            /** Format: int64 */
            age_ns?: number;
            commit?: string;
            /** @description why it was not started the best way */
            fallback?: string;
            id: string;
            /** @description memory or files */
            started_from: string;
        };
        PageThreads: {
            /** Format: int64 */
            drafts: number;
            /** Format: int64 */
            open: number;
        };
        PageVerdict: {
            code?: string;
            evidence?: string;
            head?: string;
            missing?: boolean;
            not_shown: string[];
            reasons: string[];
            stale: boolean;
            verdict?: string;
        };
        Phase: {
            cached?: boolean;
            detail?: string;
            /** Format: int64 */
            duration_ns: number;
            name: string;
        };
        Pick: {
            session: string;
        };
        PlaceOf: {
            /** Format: int64 */
            end_line?: number;
            /** @description commit that was looked at; default the head */
            head?: string;
            /** Format: int64 */
            line?: number;
            path?: string;
            /** @description of the list of files, where there is one */
            raw?: string;
            /**
             * @description default new
             * @enum {string}
             */
            side?: "old" | "new";
        };
        Port: {
            declared: boolean;
            listening: boolean;
            name?: string;
            /** Format: int64 */
            port: number;
            service?: string;
            /** @description where the app is for a browser that has entered; absent where that differs from person to person */
            url?: string;
        };
        Ports: {
            /** @description a sandbox runs; otherwise nothing listens */
            awake: boolean;
            items: components["schemas"]["Port"][] | null;
        };
        Presence: {
            people: components["schemas"]["Present"][];
            session: string;
        };
        Present: {
            typing?: boolean;
            user: components["schemas"]["Author"];
        };
        Preview: {
            declared: boolean;
            /** Format: date-time */
            expires: string;
            /** Format: int64 */
            port: number;
            /** @description with a ticket that works once */
            url: string;
            /** @description it shares its host name with other previews and the control plane, whose cookies do not know ports */
            weak: boolean;
        };
        Prompt: {
            author: components["schemas"]["Author"];
            client_id?: string;
            /** Format: date-time */
            created: string;
            /** Format: date-time */
            finished?: string;
            id: string;
            /** Format: int64 */
            position: number;
            run?: string;
            session: string;
            source: string;
            /** Format: date-time */
            started?: string;
            state: string;
            text: string;
        };
        PulledSnapshot: {
            digest: string;
            /** @description that starts from it now */
            environment?: components["schemas"]["Environment"];
            /**
             * Format: int64
             * @description bytes
             */
            fetched: number;
            /** @description it was here already */
            present?: boolean;
            reference: string;
            snapshot: components["schemas"]["Snapshot"];
        };
        PullSnapshot: {
            /** @description whose snapshot it becomes; made when there is none of the name */
            environment?: string;
            /** @description speak without TLS to a registry that is not on this machine */
            insecure?: boolean;
            /** @description only the files */
            no_memory?: boolean;
            /** @description registry/repository:tag, or @sha256:... */
            reference: string;
            /** @description repository of a new environment; default what came with the snapshot */
            source?: string;
            /** @description keep the builds of runsc and drydock-init that come with the memory image; they will run as root on the daemon's machine */
            with_runtime?: boolean;
        };
        PushedSnapshot: {
            /**
             * Format: int64
             * @description of everything, packed
             */
            bytes: number;
            /** @description of the image */
            digest: string;
            /** Format: int64 */
            layers: number;
            /** @description digest of the memory image's artifact */
            memory?: string;
            reference: string;
            /**
             * Format: int64
             * @description of it, this time
             */
            sent: number;
            snapshot: string;
        };
        PushSnapshot: {
            /** @description speak without TLS to a registry that is not on this machine */
            insecure?: boolean;
            /** @description leave the memory image here */
            no_memory?: boolean;
            /** @description registry/repository:tag */
            reference: string;
            /** @description send the builds of runsc and drydock-init that the memory image is bound to */
            with_runtime?: boolean;
        };
        Read: {
            /** Format: int64 */
            seq: number;
            session: string;
        };
        ReadEvent: {
            actor?: string;
            attempt?: string;
            /** @description texts of data that are only a beginning, by path (output, input.content); an empty path: the whole data was too long and is {} */
            cut?: {
                [key: string]: components["schemas"]["CutText"];
            };
            data: unknown;
            kind: string;
            node?: string;
            run?: string;
            /** Format: int64 */
            seq: number;
            subject: string;
            /** Format: date-time */
            time: string;
        };
        Reason: {
            reason?: string;
        };
        Recipe: {
            commit?: string;
            /** @description drydock.yaml or devcontainer.json */
            file: string;
            text: string;
        };
        ReplyTo: {
            body: string;
            /** @description the client's own id: a retry with it is not a second comment */
            client_id?: string;
        };
        Rerun: {
            differences?: components["schemas"]["Difference"][] | null;
            reason?: string;
            /** @description same, differs, cannot */
            result: string;
        };
        Reset: {
            reason: string;
            /**
             * Format: int64
             * @description number of its newest event
             */
            seq: number;
            session: string;
        };
        RewriteNote: {
            body: string;
        };
        Rollback: {
            /** @description of an earlier build of the environment */
            snapshot: string;
        };
        Room: {
            /**
             * Format: int64
             * @description for new ones
             */
            free: number;
            /**
             * Format: int64
             * @description to sandboxes, beyond what they use now
             */
            promised?: number;
            /**
             * Format: int64
             * @description never given out
             */
            reserve: number;
            /**
             * Format: int64
             * @description part of it that sandboxes use
             */
            sandboxes?: number;
            /** Format: int64 */
            total: number;
            /**
             * Format: int64
             * @description by everything on the host
             */
            used: number;
        };
        Run: {
            blueprint: string;
            /** Format: date-time */
            created: string;
            data: unknown;
            failure?: components["schemas"]["Failure"];
            /** Format: date-time */
            finished?: string;
            id: string;
            node: string;
            outcome: string;
            prompt: string;
            session: string;
            state: string;
            verdict?: string;
        };
        Sandbox: {
            address?: string;
            /** Format: date-time */
            created: string;
            environment?: string;
            id: string;
            limits?: components["schemas"]["Limits"];
            /** @description session, build, proof */
            purpose?: string;
            session?: string;
            snapshot?: string;
            state: string;
        };
        SeenMark: {
            /** Format: date-time */
            at: string;
            head: string;
        };
        Selection: {
            base: string;
            base_commit: string;
            budget: components["schemas"]["Budget"];
            /** Format: date-time */
            created: string;
            environment: string;
            id: string;
            owner: components["schemas"]["Author"];
            picked?: string;
            picked_by?: string;
            reason?: string;
            rule: string;
            /** Format: int64 */
            sessions: number;
            snapshot: string;
            state: string;
            title: string;
            /** Format: date-time */
            updated: string;
        };
        SelectionDetail: {
            candidates: components["schemas"]["Candidate"][];
            selection: components["schemas"]["Selection"];
        };
        SendNotes: {
            /** @description the same one again answers with what the first sent */
            client_id: string;
            /** @description stands above them, and is a comment of its own */
            note?: string;
            /**
             * @description agent: they become one prompt of yours
             * @enum {string}
             */
            to: "agent" | "people";
        };
        SentNotes: {
            comments: components["schemas"]["Comment"][];
            prompt?: components["schemas"]["Prompt"];
        };
        Session: {
            /** Format: int64 */
            active_ns: number;
            agent: string;
            base: string;
            base_commit?: string;
            blueprint: string;
            branch?: string;
            budget: components["schemas"]["Budget"];
            change?: string;
            cost: components["schemas"]["Cost"];
            /** Format: date-time */
            created: string;
            environment: string;
            head?: string;
            held?: boolean;
            id: string;
            model: string;
            owner: components["schemas"]["Author"];
            reason?: string;
            sandbox?: string;
            /** Format: int64 */
            seed?: number;
            selection?: string;
            snapshot?: string;
            state: string;
            title: string;
            /** Format: date-time */
            updated: string;
            usage: components["schemas"]["Usage"];
            view?: components["schemas"]["View"];
            wait?: string;
        };
        SessionPage: {
            budget: components["schemas"]["PageBudget"];
            /** @description without its body */
            change?: components["schemas"]["Change"];
            change_brief?: components["schemas"]["ChangeBrief"];
            /** @description forked from this one, at most 100 */
            children: components["schemas"]["Session"][];
            /**
             * Format: int64
             * @description turns before those
             */
            earlier?: number;
            /**
             * Format: int64
             * @description time in runs, up to now
             */
            elapsed_ns: number;
            environment: components["schemas"]["EnvironmentBrief"];
            /** @description newest */
            evidence?: components["schemas"]["EvidenceBrief"];
            /** @description the newest turns, oldest first */
            outline: components["schemas"]["OutlineTurn"][];
            parent?: string;
            /** @description the owner, and who wrote in it */
            people: components["schemas"]["Author"][];
            /** @description that are queued, in order */
            prompts: components["schemas"]["PagePrompt"][];
            /**
             * Format: int64
             * @description the person's read mark
             */
            read: number;
            /** @description the time goes on */
            running: boolean;
            /** @description of the turns in the outline */
            runs: components["schemas"]["PageRun"][];
            /**
             * Format: int64
             * @description number of the newest event: go on with the events after it
             */
            seq: number;
            session: components["schemas"]["Session"];
            /** @description that its sandbox was started from last */
            snapshot?: components["schemas"]["PageSnapshot"];
        };
        SetThread: {
            /** @enum {string} */
            state: "resolved" | "open";
        };
        Size: {
            /** Format: int32 */
            cols: number;
            /** Format: int32 */
            rows: number;
        };
        Snapshot: {
            build?: string;
            /** Format: int64 */
            bytes: number;
            commit?: string;
            /** Format: date-time */
            created: string;
            environment?: string;
            id: string;
            memory: boolean;
            parent?: string;
            session?: string;
            state: string;
        };
        SnapshotDetail: {
            build?: string;
            /** Format: int64 */
            bytes: number;
            commit?: string;
            /** Format: date-time */
            created: string;
            environment?: string;
            id: string;
            /** @description topmost first */
            layers?: components["schemas"]["Layer"][] | null;
            memory: boolean;
            memory_image?: components["schemas"]["MemoryImage"];
            parent?: string;
            session?: string;
            state: string;
            /** @description who needs its files */
            users: string[];
        };
        Thread: {
            anchor: components["schemas"]["Anchor"];
            answered?: components["schemas"]["ThreadAnswer"];
            comments: components["schemas"]["Comment"][];
            id: string;
            lost?: boolean;
            now?: components["schemas"]["AnchorNow"];
            prompt?: string;
            /** Format: date-time */
            resolved?: string;
            resolved_by?: string;
            /** @enum {string} */
            state: "draft" | "sent" | "answered" | "resolved";
        };
        ThreadAnswer: {
            commit: string;
            patch?: string;
        };
        Token: {
            /** Format: date-time */
            created: string;
            id: string;
            /**
             * @description api: a program sends it; web: a browser that was signed in holds it
             * @enum {string}
             */
            kind?: "api" | "web";
            label?: string;
            /** Format: date-time */
            last_used?: string;
            /** @description the token a web one was made with: it ends with it */
            parent?: string;
            /** Format: date-time */
            revoked?: string;
            /** @description handle of the person */
            user: string;
        };
        Transfer: {
            digest?: string;
            /**
             * Format: int64
             * @description bytes
             */
            done?: number;
            /** @description packing, sending, fetching, present, mounted, done, warning */
            state: string;
            /**
             * Format: int64
             * @description bytes; left out while it is not known
             */
            total?: number;
            /** @description for people: layer 2 of 5 */
            what: string;
        };
        Usage: {
            /** Format: int64 */
            cache_read: number;
            /** Format: int64 */
            cache_write: number;
            /** Format: int64 */
            calls: number;
            /** Format: int64 */
            input: number;
            /** Format: int64 */
            output: number;
        };
        UsageReport: {
            /** @description runs by how they ended */
            outcomes: {
                [key: string]: number;
            };
            rows: components["schemas"]["UsageRow"][];
            /** Format: date-time */
            since?: string;
            total: components["schemas"]["UsageRow"];
            /** @description runs by verdict */
            verdicts: {
                [key: string]: number;
            };
        };
        UsageRow: {
            cost: components["schemas"]["Cost"];
            /** @description session, environment or model */
            key: string;
            /** Format: int64 */
            sessions?: number;
            title?: string;
            usage: components["schemas"]["Usage"];
        };
        Verification: {
            good: boolean;
            parts: components["schemas"]["VerifiedPart"][];
            snapshot: string;
        };
        VerifiedPart: {
            /** Format: int64 */
            bytes: number;
            /** @description left out where there is none */
            damage?: string;
            name: string;
        };
        View: {
            /** @description what a person can do next; may be empty */
            action: string;
            /**
             * Format: int64
             * @description at that step, from 1
             */
            attempt?: number;
            /**
             * @description shape that goes with the word
             * @enum {string}
             */
            glyph: "ring" | "ring_quarter" | "ring_half" | "ring_dashed" | "diamond" | "bars" | "square" | "check" | "check_open" | "cross" | "bubble" | "hand" | "merge";
            /** @description title of the step it is at */
            node?: string;
            /**
             * Format: int64
             * @description of a queued one, from 1
             */
            position?: number;
            /** @description one sentence for people */
            reason: string;
            /**
             * @description what kind of word it is; chooses the colour
             * @enum {string}
             */
            role: "idle" | "run" | "ask" | "ok" | "unp" | "bad";
            /**
             * @description asleep: suspended with its memory, wakes in a moment; left out where there is none
             * @enum {string}
             */
            sandbox?: "awake" | "asleep";
            /** Format: date-time */
            since: string;
            /** @enum {string} */
            word: "draft" | "queued" | "starting" | "working" | "needs_you" | "paused" | "stopping" | "stopped" | "proven" | "unproven" | "broken" | "answered" | "handed_over" | "merged" | "closed" | "lost";
        };
        WaitingSandbox: {
            for: string;
            /** @description identifier of the session, run or build */
            owner: string;
            purpose: string;
            /** Format: date-time */
            since: string;
        };
        Wants: {
            /** @description rows and counts of the inbox */
            inbox?: boolean;
            /** @description sessions whose events are wanted, each with the number to go on after; at most 8. One that is followed already goes on where it is */
            sessions?: {
                [key: string]: number;
            };
        };
        Who: {
            user: components["schemas"]["Author"];
            version: string;
        };
        WriteNote: {
            anchor: components["schemas"]["PlaceOf"];
            body: string;
            /** @description the client's own id: a retry with it is not a second draft */
            client_id?: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
};
export type $defs = Record<string, never>;
export interface operations {
    "list-approvals": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                session?: string;
                state?: "pending" | "approved" | "denied" | "expired";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListApproval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "approve-approval": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Answer"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "deny-approval": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Answer"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    backup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-blob": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                digest: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-build": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateBuild"];
            };
        };
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Build"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-build": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Build"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "build-events": {
        parameters: {
            query?: {
                /** @description events after this number */
                after?: number;
                /** @description the last events before this number; only with follow=false */
                before?: number;
                /** @description short: long texts are cut to beginning and end */
                bodies?: "whole" | "short";
                /** @description false: one page of JSON instead of a stream */
                follow?: boolean;
                /** @description of a page */
                limit?: number;
            };
            header?: {
                /** @description as after; wins */
                "Last-Event-ID"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListReadEvent"];
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    capacity: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Capacity"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-changes": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                repository?: string;
                session?: string;
                state?: "open" | "merged" | "closed";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListChange"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeDetail"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "approve-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ApproveChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeApproval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-cases": {
        parameters: {
            query?: {
                class?: "fixed" | "broken" | "still_red" | "new" | "gone" | "flaky" | "changed" | "skipped" | "still_skipped" | "kept";
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
            };
            header?: never;
            path: {
                check: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListPageCase"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "close-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Change"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comment-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateComment"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comment"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-diff": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-change-drafts": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListNote"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-change-draft": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WriteNote"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Note"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "remove-change-draft": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                draft: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "edit-change-draft": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                draft: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RewriteNote"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Note"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "send-change-drafts": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendNotes"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentNotes"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-files": {
        parameters: {
            query?: {
                /** @description base, head, seen (what you last looked at), or a commit; default base */
                from?: string;
                /** @description the same; default head */
                to?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeDiff"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "hand-back": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HandBack"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "merge-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MergeChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Change"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-page": {
        parameters: {
            query?: {
                /** @description all: also cases that were green before and after */
                cases?: "all";
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePage"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-patches": {
        parameters: {
            query?: {
                /** @description lines around a change */
                context?: number;
                /** @description of the list of files that the numbers are from: a conflict when it is another by now */
                digest?: string;
                /** @description numbers of the list of files: 1,2,5-9; default all. At most 200 files and 8 MiB are answered; the last object says what is next */
                files?: string;
                /** @description base, head, seen (what you last looked at), or a commit; default base */
                from?: string;
                /** @description the same; default head */
                to?: string;
                /** @description of one file: up to 16 MiB instead of 512 KiB */
                whole?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "reopen-change": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Change"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-search": {
        parameters: {
            query: {
                /** @description base, head, seen (what you last looked at), or a commit; default base */
                from?: string;
                q: string;
                /** @description the same; default head */
                to?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiffHits"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "mark-seen": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MarkSeen"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-threads": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListThread"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "mark-viewed": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MarkViewed"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-draft": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateDraft"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Draft"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "return-draft": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-environments": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListEnvironment"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-environment": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Environment"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "remove-environment": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-builds": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListBuild"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-recipe": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recipe"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "rollback-environment": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Rollback"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Environment"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-evidence": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Evidence"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "evidence-bundle": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "evidence-file": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                digest: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "rerun-evidence": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    inbox: {
        parameters: {
            query?: {
                /** @description name or identifier */
                environment?: string;
                /** @description rows of each section; default 50 */
                limit?: number;
                /** @description only own sessions, or ones you wrote in */
                mine?: boolean;
                /** @description in the title */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Inbox"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "inbox-section": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description name or identifier */
                environment?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                /** @description only own sessions, or ones you wrote in */
                mine?: boolean;
                /** @description in the title */
                q?: string;
            };
            header?: never;
            path: {
                section: "needs" | "running" | "recent";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxPart"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Login"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Set-Cookie"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Who"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-login-code": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoginCode"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    "Set-Cookie"?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-attempts": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListAttempt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-sandboxes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListSandbox"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-selections": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description name or identifier */
                environment?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                owner?: string;
                state?: "open" | "waiting" | "picking" | "picked";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListSelection"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-selection": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSelection"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SelectionDetail"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-selection": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SelectionDetail"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "pick-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Pick"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SelectionDetail"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-sessions": {
        parameters: {
            query?: {
                /** @description also archived ones */
                archived?: boolean;
                /** @description next of the page before */
                cursor?: string;
                /** @description name or identifier */
                environment?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                owner?: string;
                state?: "queued" | "starting" | "running" | "waiting" | "stopping" | "idle" | "failed" | "archived";
                /** @description in the title */
                text?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListSession"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSession"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedSession"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "archive-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "set-budget": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Budget"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "continue-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-diff": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-events": {
        parameters: {
            query?: {
                /** @description events after this number */
                after?: number;
                /** @description the last events before this number; only with follow=false */
                before?: number;
                /** @description short: long texts are cut to beginning and end */
                bodies?: "whole" | "short";
                /** @description false: one page of JSON instead of a stream */
                follow?: boolean;
                /** @description of a page */
                limit?: number;
            };
            header?: {
                /** @description as after; wins */
                "Last-Event-ID"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListReadEvent"];
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-event": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                seq: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadEvent"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-file": {
        parameters: {
            query: {
                path: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-files": {
        parameters: {
            query: {
                path: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListFileInfo"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "fork-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForkSession"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Forked"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-page": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-ports": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ports"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    presence: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Here"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "open-preview": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OpenPreview"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Preview"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-prompts": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListPrompt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-prompt": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreatePrompt"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "remove-prompt": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                prompt: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "edit-prompt": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                prompt: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EditPrompt"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "move-prompt": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                prompt: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MovePrompt"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "prompt-now": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                prompt: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "mark-read": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MarkRead"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Read"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "mark-unread": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Read"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-runs": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListRun"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "search-session": {
        parameters: {
            query: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
                q: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Found"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "stop-session": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "session-terminal": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-snapshots": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListSnapshot"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "get-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotDetail"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "remove-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "push-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PushSnapshot"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "verify-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Verification"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "collect-snapshots": {
        parameters: {
            query?: {
                /** @description only tell */
                dry_run?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Collected"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "pull-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PullSnapshot"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    stream: {
        parameters: {
            query?: {
                /** @description rows and counts of the inbox */
                inbox?: boolean;
                /** @description events of these sessions after these numbers: ses_...:17,ses_...:4; at most 8 */
                sessions?: string;
            };
            header?: {
                /** @description id of the last message: wins over sessions */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "change-stream": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Wants"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "set-thread": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetThread"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "reply-thread": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplyTo"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comment"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "list-tokens": {
        parameters: {
            query?: {
                /** @description next of the page before */
                cursor?: string;
                /** @description entries in the answer; default 50 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListToken"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "create-token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateToken"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedToken"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "revoke-token": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    usage: {
        parameters: {
            query?: {
                by?: "session" | "environment" | "model";
                /** @description only what was spent after it */
                since?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageReport"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    whoami: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Who"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
}
