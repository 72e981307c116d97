"""The only root power: accounts, pseudo-terminals, processes, signals, cgroups and workspaces."""
