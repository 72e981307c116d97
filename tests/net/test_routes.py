from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import METHODS
from computerd.net.heads import MethodNotAllowed
from computerd.net.routes import Routes


class RouteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = Routes()

    def test_every_route_of_the_contract_is_found(self) -> None:
        for method in METHODS:
            if method.route is None:
                continue
            path = method.route.path.replace("{", "").replace("}", "")
            match = self.routes.find(method.route.verb, path)
            self.assertIs(match.method, method)
            self.assertTrue(all(name == value for name, value in match.fields.items()))

    def test_a_path_is_split_before_it_is_decoded(self) -> None:
        match = self.routes.find("GET", "/sessions/a%2Fb%20%C3%A9")
        self.assertEqual(match.fields, {"sessionId": "a/b é"})

    def test_unknown_paths(self) -> None:
        for path in (
            "/", "", "/session", "/sessions/", "/sessions//events", "/Sessions", "/sessions/x/", "/sessions/x/y", "/sessions/%ff",
            "//sessions", "/./sessions", "/sessions/../sessions", "/%73essions", "/sessions;x", "/sessions/x/events/..",
        ):  # fmt: skip
            error = self.assertRaises(ApiError, self.routes.find, "GET", path)
            self.assertEqual(error.code, Code.NOT_FOUND, path)

    def test_other_verbs(self) -> None:
        error = self.assertRaises(MethodNotAllowed, self.routes.find, "PUT", "/sessions")
        self.assertEqual((error.status, error.allow), (405, ("GET", "HEAD", "POST")))
        for verb in ("get", "TRACE", "OPTIONS", "CONNECT", ""):
            self.assertRaises(MethodNotAllowed, self.routes.find, verb, "/sessions/x")

    def test_head_is_get(self) -> None:
        self.assertEqual(self.routes.find("HEAD", "/sessions").method.name, "sessions.list")
