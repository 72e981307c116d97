"""J6 of the threat model, and the shapes of answers."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits, results
from computerd.contract.errors import ApiError, Code, Reason, invalid
from computerd.wire import rpc
from computerd.wire.rpc import Notification, Request, RpcError


class Case(SynchronousTestCase):
    def refused(self, text: str | bytes, code: int, id_: object = None) -> RpcError:
        error: RpcError = self.assertRaises(RpcError, rpc.parse, text)
        self.assertEqual((error.code, error.id), (code, id_), text[:100])
        answer = json.loads(rpc.error(error.id, error))
        self.assertEqual(set(answer), {"jsonrpc", "id", "error"})
        self.assertEqual((answer["id"], answer["error"]["code"]), (id_, code))
        return error


def message(**members: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **members})


class Parse(Case):
    def test_a_request(self) -> None:
        self.assertEqual(rpc.parse(message(params={"a": [1]})), Request(1, "ping", {"a": [1]}))
        self.assertEqual(rpc.parse(message().encode()), Request(1, "ping", {}))
        self.assertEqual(rpc.parse(message(params={})), Request(1, "ping", {}))

    def test_a_notification(self) -> None:
        text = '{"jsonrpc":"2.0","method":"sessions.ack","params":{"a":1}}'
        self.assertEqual(rpc.parse(text), Notification("sessions.ack", {"a": 1}))
        self.assertEqual(rpc.parse('{"jsonrpc":"2.0","method":"x"}'), Notification("x", {}))

    def test_a_notification_is_never_answered(self) -> None:
        for params in ("[1]", "null", "3", '"x"'):
            text = f'{{"jsonrpc":"2.0","method":"terminals.open","params":{params}}}'
            self.assertEqual(rpc.parse(text), Notification("terminals.open", None))

    def test_ids_come_back_as_they_were(self) -> None:
        """J6."""
        for text in (
            "0",
            "1",
            "-1",
            "9007199254740993",
            "18446744073709551617",
            "9" * 1024,
            '""',
            '"a\\"\\\\b"',
            '"é😀"',
            f'"{"x" * 1024}"',
        ):
            parsed = rpc.parse(f'{{"jsonrpc":"2.0","id":{text},"method":"ping"}}')
            assert isinstance(parsed, Request)
            self.assertEqual(
                rpc.result(parsed.id, results.Empty()), f'{{"jsonrpc":"2.0","id":{text},"result":{{}}}}'.encode()
            )

    def test_not_json(self) -> None:
        for text in (
            "",
            "{",
            "NaN",
            '{"id":1,"id":1}',
            "\ufeff{}",
            b"\xff",
            "[" * 65 + "]" * 65,
            '{"method":"\\ud800"}',
        ):
            self.refused(text, rpc.PARSE_ERROR)

    def test_too_much_structure(self) -> None:
        error = self.refused("[" + "0," * 30_000 + "0]", rpc.API_ERROR)
        assert error.data is not None
        self.assertEqual((error.data["code"], error.data["status"]), ("too_large", 413))

    def test_j6_ids_that_are_none(self) -> None:
        """J6."""
        for text in (
            "null",
            "true",
            "false",
            "1.5",
            "1.0",
            "-0",
            "1e3",
            "{}",
            "[]",
            "[1]",
            "1" * 1025,
            "-" + "1" * 1024,
            "1" * 5000,
            f'"{"x" * 1025}"',
        ):
            self.refused(f'{{"jsonrpc":"2.0","id":{text},"method":"ping"}}', rpc.INVALID_REQUEST)

    def test_j6_no_request(self) -> None:
        """J6."""
        for text in ("[]", "[1]", f"[{message()}]", "1", '"x"', "null", "true", "{}", '{"jsonrpc":"2.0"}', '{"foo":1}'):
            self.refused(text, rpc.INVALID_REQUEST)

    def test_j6_what_is_wrong_with_a_request_whose_id_is_right(self) -> None:
        for version in (None, "1.0", 2.0, 2, "2.0 ", ["2.0"]):
            self.refused(message(jsonrpc=version), rpc.INVALID_REQUEST, 1)
        self.refused('{"id":"a","method":"ping"}', rpc.INVALID_REQUEST, "a")
        methods: list[object] = [None, 1, True, ["ping"], {}]
        for method in methods:
            self.refused(message(method=method), rpc.INVALID_REQUEST, 1)
        self.refused('{"jsonrpc":"2.0","id":1}', rpc.INVALID_REQUEST, 1)
        self.refused('{"jsonrpc":"2.0","id":1,"result":{}}', rpc.INVALID_REQUEST, 1)

    def test_members_that_a_request_does_not_have(self) -> None:
        for name in ("Id", "parmas", "__proto__", "result", ""):
            self.refused(message(**{name: 1}), rpc.INVALID_REQUEST, 1)
        self.refused('{"jsonrpc":"2.0","Id":1,"method":"ping"}', rpc.INVALID_REQUEST)

    def test_params_that_are_no_object(self) -> None:
        for params in (None, [], [1], 1, True, "x"):
            error = self.refused(message(params=params), rpc.INVALID_PARAMS, 1)
            assert error.data is not None
            self.assertEqual(
                (error.data["code"], error.data["field"], error.data["status"]), ("invalid_request", "params", 400)
            )

    def test_no_answer_repeats_a_message(self) -> None:
        long = "x" * 500_000
        for text in (
            message(method=[long]),
            message(**{long: 1}),
            message(params=long),
            message(id=long),
            message(jsonrpc=long),
            long,
        ):
            error: RpcError = self.assertRaises(RpcError, rpc.parse, text)
            self.assertLess(len(rpc.error(error.id, error)), 1000)


class Write(SynchronousTestCase):
    def read(self, data: bytes) -> Any:
        return json.loads(data)

    def test_errors_of_the_api(self) -> None:
        refusal = ApiError(Code.FORBIDDEN, "No.", reason=Reason.TERMINAL_OWNER_ONLY)
        self.assertEqual(
            self.read(rpc.api_error("a", refusal, "rq_1")),
            {
                "jsonrpc": "2.0",
                "id": "a",
                "error": {
                    "code": -32000,
                    "message": "No.",
                    "data": {
                        "code": "forbidden",
                        "message": "No.",
                        "status": 403,
                        "retryable": False,
                        "requestId": "rq_1",
                        "reason": "terminal_owner_only",
                    },
                },
            },
        )

    def test_an_invalid_request_is_invalid_params(self) -> None:
        error = self.read(rpc.api_error(1, invalid("cols", "No."), None))["error"]
        self.assertEqual(error["code"], -32602)
        self.assertEqual(
            error["data"],
            {"code": "invalid_request", "message": "No.", "status": 400, "retryable": False, "field": "cols"},
        )

    def test_an_error_without_data(self) -> None:
        self.assertEqual(self.read(rpc.error(1, rpc.unknown_method(1)))["error"].keys(), {"code", "message"})

    def test_a_notification(self) -> None:
        params = results.TerminalExited(terminal_id="tm_0123456789ab", exit_code=None, signal="SIGKILL")
        self.assertEqual(
            rpc.notification("terminal.exited", params),
            b'{"jsonrpc":"2.0","method":"terminal.exited","params":{"terminalId":"tm_0123456789ab","exitCode":null,"signal":"SIGKILL"}}',
        )

    def test_the_longest_answer_to_an_id_is_short(self) -> None:
        id_ = '"' * limits.MAX_ID_CHARACTERS
        self.assertLess(len(rpc.result(id_, results.Empty())), 3000)
