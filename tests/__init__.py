"""Tests, one folder for each room.

What `nohup`, or a script that started the tests with `&`, told this process to ignore would be ignored by every program that it starts.
A function of its own that does nothing is as good for itself, and is not inherited over exec: programs have the default again.
"""

import signal

for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)
