"""What can be told of a path without a look at the workspace. Pure; the user's process decides about the rest."""

from __future__ import annotations

from computerd.contract.errors import ApiError, Code


def refuse_impossible(path: str) -> None:
    """Refuses a path that names no place in any workspace.

    Raises:
        ApiError: `invalid_path`.
    """
    if "\0" in path:
        raise _invalid("A path holds no NUL.")
    if path.startswith("/"):
        raise _invalid("A path is relative to the workspace: leave the slash at its beginning out.")
    if ".." in path.split("/"):
        raise _invalid("A path does not lead upwards: leave `..` out.")


def _invalid(message: str) -> ApiError:
    return ApiError(Code.INVALID_PATH, message, field="path")
