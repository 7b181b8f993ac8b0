"""How the Python sides of `bench/compare` are spoken to.

They read a line `WORKLOAD ROUNDS`, run that many rounds, and answer with the seconds each took, on one line.
"""

import sys
import time


def serve(version, workloads):
    """Answers until the input ends. `workloads` makes each when it is first asked for."""
    made = {}
    print("ready", version, flush=True)
    for line in sys.stdin:
        name, rounds = line.split()
        if name not in made:
            made[name] = workloads[name]()
        seconds = []
        for _ in range(int(rounds)):
            started = time.perf_counter()
            made[name].round()
            seconds.append(time.perf_counter() - started)
        print(*seconds, flush=True)
