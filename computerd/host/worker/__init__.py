"""The program that does the work on files, as the user whose files they are.

The daemon sends these modules to a fresh Python over a socket (`boot`), so that the user can't change what runs and need not be able to read
the daemon's folder. They import nothing but the standard library and each other, and run on Python 3.11 and newer.

`serving` reads frames and gives each request a thread; `verbs` is the table of what can be asked for, one module a verb; `paths` confines
every name to the workspace.
"""

from __future__ import annotations
