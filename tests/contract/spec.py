"""The API schema, typed in from its page: what the contract must have, field by field. `?` may be absent, `|` may be null."""

from __future__ import annotations

METHODS: dict[str, tuple[str | None, str, str]] = {
    "sessions.attach": (
        None,
        "sessionId after? tailTurns? deltas? resume? readOnly?",
        "session logEpoch epochStartSeq capabilities earlierTurns| timing",
    ),
    "sessions.detach": (None, "sessionId", ""),
    "sessions.get": ("GET /sessions/{sessionId}", "sessionId minSeq?", "session"),
    "sessions.create": (
        "POST /sessions",
        "id? input? title? model? effort? speed? mode? metadata?",
        "session turn| seq",
    ),
    "sessions.update": (
        "PATCH /sessions/{sessionId}",
        "sessionId idempotencyKey? title? model? effort? speed? mode? archived? metadata?",
        "session seq",
    ),
    "sessions.interrupt": (
        "POST /sessions/{sessionId}/interrupt",
        "sessionId idempotencyKey? turnId?",
        "session seq",
    ),
    "sessions.compact": (
        "POST /sessions/{sessionId}/compact",
        "sessionId idempotencyKey? instructions?",
        "turn delivery duplicate seq timing?",
    ),
    "sessions.suspend": ("POST /sessions/{sessionId}/suspend", "sessionId idempotencyKey? ifIdle?", "session seq"),
    "sessions.resume": ("POST /sessions/{sessionId}/resume", "sessionId idempotencyKey?", "session seq"),
    "turns.send": (
        "POST /sessions/{sessionId}/turns",
        "sessionId idempotencyKey? input ifBusy?",
        "turn delivery duplicate seq timing?",
    ),
    "turns.get": ("GET /sessions/{sessionId}/turns/{turnId}", "sessionId turnId waitMs? status? minSeq?", "turn"),
    "turns.cancel": (
        "POST /sessions/{sessionId}/turns/{turnId}/cancel",
        "sessionId turnId idempotencyKey?",
        "turn seq",
    ),
    "asks.list": ("GET /sessions/{sessionId}/asks", "sessionId status? limit? cursor?", "asks nextCursor|"),
    "asks.get": ("GET /sessions/{sessionId}/asks/{askId}", "sessionId askId", "ask"),
    "asks.answer": (
        "POST /sessions/{sessionId}/asks/{askId}/answer",
        "sessionId askId idempotencyKey? answer",
        "ask seq",
    ),
    "asks.dismiss": (
        "POST /sessions/{sessionId}/asks/{askId}/dismiss",
        "sessionId askId idempotencyKey? message?",
        "ask seq",
    ),
    "subagents.list": (
        "GET /sessions/{sessionId}/subagents",
        "sessionId status? limit? cursor?",
        "subagents nextCursor|",
    ),
    "subagents.get": ("GET /sessions/{sessionId}/subagents/{subagentId}", "sessionId subagentId", "subagent"),
    "subagents.stop": (
        "POST /sessions/{sessionId}/subagents/{subagentId}/stop",
        "sessionId subagentId idempotencyKey?",
        "subagent seq",
    ),
    "events.list": (
        "GET /sessions/{sessionId}/events",
        "sessionId after? limit? waitMs? tailTurns? turnId? types?",
        "events earlierTurns| lastSeq hasMore",
    ),
    "terminals.open": (None, "sessionId cols? rows? command? tty? term?", "terminal"),
    "terminals.resize": (None, "terminalId cols rows", ""),
    "terminals.eof": (None, "terminalId", ""),
    "terminals.close": (None, "terminalId", ""),
    "ping": (None, "", "timing"),
}
"""HTTP route, params, result."""
HTTP_ONLY = {"sessions.create"}

LIMITED: dict[tuple[str, str], dict[str, object]] = {
    ("Attach", "tailTurns"): {"minimum": 1, "maximum": 50},
    ("UpdateSession", "title"): {"minLength": 1, "maxLength": 200},
    ("CreateSessionBody", "title"): {"maxLength": 200},
    ("UpdateSession", "speed"): {"enum": ["fast", "standard"]},
    ("UpdateSession", "idempotencyKey"): {"minLength": 1, "maxLength": 255},
    ("Compact", "instructions"): {"maxLength": 10_000},
    ("SendTurn", "input"): {"minLength": 1, "maxLength": 100_000},
    ("SendTurn", "ifBusy"): {"enum": ["interrupt", "queue", "steer"]},
    ("GetTurn", "waitMs"): {"minimum": 0, "maximum": 60_000},
    ("ListAsks", "limit"): {"minimum": 1, "maximum": 100},
    ("DismissAsk", "message"): {"maxLength": 2_000},
    ("ListSubagents", "status"): {"enum": ["all", "running"]},
    ("ListSubagents", "limit"): {"minimum": 1, "maximum": 100},
    ("ListEvents", "limit"): {"minimum": 1, "maximum": 500},
    ("ListEvents", "waitMs"): {"minimum": 0, "maximum": 60_000},
    ("ListEvents", "tailTurns"): {"minimum": 1, "maximum": 50},
    ("OpenTerminal", "cols"): {"minimum": 1, "maximum": 1_000},
    ("OpenTerminal", "rows"): {"minimum": 1, "maximum": 1_000},
    ("OpenTerminal", "command"): {"minLength": 1, "maxLength": 10_000},
    ("OpenTerminal", "term"): {"minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._+-]+$"},
    ("OpenTerminal", "tty"): {"type": "boolean", "default": True},
    ("ResizeTerminal", "cols"): {"minimum": 1, "maximum": 1_000},
    ("ApprovalAnswer", "message"): {"maxLength": 2_000},
    ("Telemetry", "v"): {"minimum": 1, "maximum": 1},
    ("Telemetry", "events"): {"minItems": 1, "maxItems": 20},
    ("TelemetryClient", "name"): {"enum": ["opc"]},
    ("Session", "id"): {"pattern": "^cs_[0-9A-Za-z]{16}$"},
    ("Turn", "id"): {"pattern": "^tn_[0-9A-Za-z]{12}$"},
    ("Ask", "id"): {"pattern": "^ak_[0-9A-Za-z]{12}$"},
    ("Subagent", "id"): {"pattern": "^sa_[0-9A-Za-z]{12}$"},
    ("Terminal", "id"): {"pattern": "^tm_[0-9A-Za-z]{12}$"},
    ("Ready", "connectionId"): {"pattern": "^cn_[0-9A-Za-z]{12}$"},
    ("Event.other", "id"): {"pattern": "^ev_[0-9A-Za-z]{16}$"},
    ("Event.other", "seq"): {"minimum": 1},
    ("Session", "status"): {"enum": ["idle", "running", "starting", "suspended", "waiting"]},
    ("Origin", "type"): {"enum": ["api", "dashboard", "opc", "slack"]},
    ("Actor", "via"): {"enum": ["api", "dashboard", "opc", "slack"]},
    ("Turn", "status"): {"enum": ["cancelled", "cancelling", "completed", "failed", "queued", "running"]},
    ("Turn", "trigger"): {"enum": ["message", "subagent"]},
    ("TurnSent", "delivery"): {"enum": ["queued", "started", "steered"]},
    ("TurnError", "code"): {
        "enum": [
            "agent_failed",
            "context_too_long",
            "model_rejected",
            "model_stream_failed",
            "model_unavailable",
            "runtime_failed",
            "runtime_lost",
            "tool_failed",
        ]
    },
    ("Ask", "kind"): {"enum": ["approval", "question", "secret"]},
    ("Ask", "status"): {"enum": ["answered", "declined", "dismissed", "interrupted", "open"]},
    ("ApprovalAnswer", "decision"): {"enum": ["allow", "always", "deny"]},
    ("Subagent", "status"): {"enum": ["completed", "failed", "running", "stopped"]},
    ("Secret", "scope"): {"enum": ["me", "organization", "session"]},
    ("Result", "type"): {"enum": ["result"]},
    ("Result", "subtype"): {"enum": ["cancelled", "error", "success", "waiting"]},
    ("FileChange", "status"): {"enum": ["added", "deleted", "modified"]},
    ("SessionDetached", "reason"): {"enum": ["access_lost", "epoch_changed", "too_far_behind", "unavailable"]},
}
"""Limits and values of fields."""

NOTIFICATIONS: dict[str, tuple[str, str]] = {
    "ready": ("server", "connectionId server protocol limits expiresAt| expiresInMs|"),
    "sessions.attached": (
        "server",
        "sessionId error| session| logEpoch| epochStartSeq| capabilities| earlierTurns| timing|",
    ),
    "event": ("server", "id seq createdAt sessionId turnId| actor| type data"),
    "delta": ("server", "type sessionId turnId| data"),
    "session.detached": ("server", "sessionId reason logEpoch? epochStartSeq?"),
    "terminal.exited": ("server", "terminalId exitCode| signal|"),
    "sessions.ack": ("client", "sessionId seq"),
    "telemetry": ("client", "v client events"),
}

EVENTS: dict[str, str] = {
    "session.created": "title origin settings",
    "session.status_changed": "from to",
    "session.updated": "changes",
    "session.compacted": "beforeTokens afterTokens auto",
    "message.received": "input ifBusy delivery interruptedTurnIds declinedAskIds",
    "turn.queued": "position trigger subagentId",
    "turn.steered": "messageSeq",
    "turn.started": "model effort mode trigger subagentId",
    "turn.status_changed": "from to",
    "turn.completed": "text durationMs silent",
    "turn.failed": "error",
    "turn.cancelled": "reason forced input",
    "message.completed": "blockId parentCallId text",
    "reasoning.completed": "blockId parentCallId text redacted durationMs",
    "tool.started": "subagentId toolName callId parentCallId title input inputTruncated",
    "tool.completed": ("subagentId toolName callId parentCallId title output outputTruncated fileChanges durationMs"),
    "tool.failed": "subagentId toolName callId parentCallId title message settledBy",
    "subagent.started": "subagent",
    "subagent.ended": "subagent",
    "ask.opened": "ask",
    "ask.closed": "ask",
    "usage.recorded": (
        "model inputTokens outputTokens reasoningTokens cachedTokens cacheWriteTokens costUsd "
        "firstTokenMs durationMs usedTokens windowTokens"
    ),
    "model.rate_limited": "model retryAfterMs attempt",
    "runtime.starting": "phase",
    "runtime.connected": "warm resumed durationMs",
    "runtime.suspended": "reason",
    "files.pushed": "path files bytes replaced",
    "terminal.opened": "terminalId command",
    "terminal.closed": "terminalId exitCode",
}
DELTAS: dict[str, str] = {
    "message.delta": "blockId parentCallId text",
    "reasoning.delta": "blockId parentCallId text",
    "tool.preparing": "subagentId callId toolName path description lines",
    "tool.delta": "callId text",
    "session.compacting": "",
    "subagent.progress": "subagentId activity toolCalls tokens",
}
OBJECTS: dict[str, str] = {
    "Session": (
        "id title status archived owner origin settings metadata activeTurnId queued asks subagents lastTurn lastText "
        "context lastSeq logEpoch epochStartSeq createdAt lastActiveAt syncedAt urls"
    ),
    "Person": "id name email",
    "Origin": "type client slack",
    "SlackThread": "teamId channelId channelName threadTs url",
    "Settings": "model effort mode speed",
    "Context": "usedTokens windowTokens",
    "Urls": "dashboard",
    "Actor": "id name via client",
    "Turn": (
        "id sessionId status trigger subagentId ifBusy input author steering createdAt startedAt endedAt text error "
        "reason forced usage"
    ),
    "Steering": "input author createdAt",
    "TurnError": "code message",
    "Usage": "inputTokens outputTokens reasoningTokens cachedTokens cacheWriteTokens costUsd",
    "Ask": ("id sessionId turnId kind status createdAt closedAt closedBy answer approval question secret"),
    "Approval": "toolName callId input title alwaysAllows",
    "Questions": "questions",
    "Question": "id header text multiSelect options",
    "Option": "label description",
    "SecretRequest": "name purpose file",
    "ApprovalAnswer": "decision message? mode?",
    "QuestionAnswer": "answers",
    "QuestionChoice": "questionId choices text",
    "DeclineAnswer": "message messageSeq",
    "Subagent": (
        "id sessionId turnId callId name agentType background status activity toolCalls tokens createdAt endedAt "
        "durationMs result resultTruncated error stoppedBy"
    ),
    "Capabilities": "models modes features",
    "Model": "id name efforts contextWindow default",
    "Secret": "name scope sessionId file effective setBy updatedAt",
    "Result": (
        "type subtype isError sessionId turnId status result error reason ask url durationMs usage subagents turn"
    ),
    "Terminal": "id channel stderrChannel",
    "ErrorBody": "code message status? retryable? requestId? field? reason? retryAfterMs?",
    "Timing": "serverUs",
    "Server": "version region",
    "ProtocolFeatures": "features",
    "ReadyLimits": "maxAttached maxMessageBytes maxRequestsPerSecond",
    "FileChange": "path status added removed",
    "Change": "from to",
    "TelemetryClient": "name version os? arch?",
}

ERRORS: dict[str, str] = {
    "Request": (
        "invalid_request unsupported_model unsupported_effort unsupported_mode invalid_answer answer_with_secret "
        "invalid_path invalid_archive invalid_cursor too_large upgrade_required"
    ),
    "Credential and access": "unauthenticated forbidden admin_required insufficient_credits",
    "Not found": (
        "not_found session_not_found turn_not_found ask_not_found subagent_not_found terminal_not_found path_not_found "
        "secret_not_found"
    ),
    "Conflict": (
        "id_conflict idempotency_conflict ask_closed session_busy turn_not_cancellable queue_full cursor_ahead "
        "path_exists subagent_ended too_far_behind too_many_attached too_many_terminals feature_unavailable "
        "computer_not_set_up"
    ),
    "Retry later": "rate_limited unavailable computer_unavailable internal",
}
STATUSES: dict[int, str] = {
    400: (
        "invalid_request unsupported_model unsupported_effort unsupported_mode invalid_answer answer_with_secret "
        "invalid_path invalid_archive invalid_cursor"
    ),
    401: "unauthenticated",
    402: "insufficient_credits",
    403: "forbidden admin_required",
    404: ERRORS["Not found"],
    409: ERRORS["Conflict"],
    413: "too_large",
    426: "upgrade_required",
    429: "rate_limited",
    500: "internal",
    503: "unavailable computer_unavailable",
}
RETRYABLE = "rate_limited unavailable computer_unavailable internal session_busy queue_full too_many_terminals too_many_attached"
CLOSE_CODES = {1001, 1002, 1007, 1009, 1012, 4001, 4008, 4029, 4400, 4503}
LIMITS: dict[str, int] = {
    "maxAttached": 20,
    "maxMessageBytes": 1 << 20,
    "maxRequestsPerSecond": 100,
    "maxConnectionsPerMember": 50,
    "maxUnsentBytes": 16 << 20,
    "maxBacklogBytes": 8 << 20,
    "maxBacklogEvents": 10_000,
    "maxTerminalsPerSession": 8,
    "inputBytesPerSecond": 1 << 20,
    "maxFrameBytes": 64 << 10,
    "maxQueuedTurns": 20,
    "maxArchiveBytes": 1 << 30,
    "maxArchiveEntries": 100_000,
    "maxFileBytes": 100 << 20,
    "maxKeyCharacters": 255,
    "idempotencyKeySeconds": 24 * 3600,
    "pingSeconds": 30,
}
