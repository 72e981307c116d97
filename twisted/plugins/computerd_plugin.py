"""`twistd computerd`. This file only names the tap module, because twistd loads every plugin file whenever it runs."""

from twisted.application.service import ServiceMaker

computerd = ServiceMaker(
    "computerd",
    "computerd.tap",
    "Terminals and sessions over WebSocket, run as an agent's Unix user.",
    "computerd",
)
