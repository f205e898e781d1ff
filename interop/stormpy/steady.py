"""Long-run probabilities of a JANI model by stormpy, unmodified: see interop/README.md.

Prints one JSON object. Each solver is asked for its own precision of 1e-10, and again for more as long as the residual of what it
returns, the largest entry of |pi Q| over the largest exit rate, is above 1e-10. The solvers that get there are listed; the figures
are those of the fastest. With `--cap` each has so many seconds, and no more than the fastest before it needed; those that are
stopped for that are listed too.
"""

import argparse
import json
import os
import signal
import sys
import time

import stormpy
import stormpy.developer
from stormpy.environments import Environment, EquationSolverType, NativeLinearEquationSolverMethod, SteadyStateDistributionAlgorithm

WANTED = 1e-10
SOLVERS = {
    "gmm++": (EquationSolverType.GMMXX, None),
    "eigen": (EquationSolverType.EIGEN, None),
    "sor": (EquationSolverType.NATIVE, NativeLinearEquationSolverMethod.SOR),
    "jacobi": (EquationSolverType.NATIVE, NativeLinearEquationSolverMethod.JACOBI),
    "gauss-seidel": (EquationSolverType.NATIVE, NativeLinearEquationSolverMethod.GAUSS_SEIDEL),
}
ALGORITHMS = {
    "equations": SteadyStateDistributionAlgorithm.EQUATION_SYSTEM,
    "visits": SteadyStateDistributionAlgorithm.EXPECTED_VISITING_TIMES,
}


def memory(what):
    """Bytes: `VmRSS` now, `VmHWM` the most since the last `forget`."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what + ":"))


def forget():
    """Has the most begin anew; false where the system does not allow it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def generate(text, conditions):
    """The chain of the tangible states, and how many vanishing ones there were."""
    jani, _ = stormpy.parse_jani_model_from_string(text)
    formulas = ";".join(f"LRA=? [ ({condition}) ]" for condition in conditions)
    model = stormpy.build_model(jani, stormpy.parse_properties(formulas, jani))
    if model.model_type == stormpy.models.ModelType.CTMC:
        return model, 0
    if not model.is_closed:
        model.close()
    tangible, before = sum(1 for _ in model.markovian_states), model.nr_states
    labels = stormpy.transformations.EliminationLabelBehavior.DELETE_LABELS
    chain, _ = stormpy.transformations.eliminate_non_markovian_chains(model, [], label_behavior=labels)
    if chain.model_type != stormpy.models.ModelType.CTMC or chain.nr_states != tangible:
        raise SystemExit("the vanishing states could not be eliminated: does the net begin in one?")
    return chain, before - tangible


def solve(chain, solver, algorithm, precision):
    environment = Environment()
    settings = environment.solver() if callable(environment.solver) else environment.solver
    kind, method = SOLVERS[solver]
    settings.set_linear_equation_solver_type(kind)
    native = settings.native() if callable(settings.native) else settings.native
    if method is not None:
        native.method = method
    native.precision = stormpy.Rational(f"1/{round(1 / precision)}")
    native.relative_termination_criterion = False
    native.maximal_number_of_iterations = 100_000
    checker = environment.modelchecker() if callable(environment.modelchecker) else environment.modelchecker
    checker.steady_state_distribution_algorithm = ALGORITHMS[algorithm]
    result = stormpy.analysis.compute_steady_state_distribution(chain, environment=environment)
    return result.get_value_vector()


def residual(chain, shares):
    rates, matrix = chain.exit_rates, chain.transition_matrix
    flow = [-share * rate for share, rate in zip(shares, rates)]
    for state, share in enumerate(shares):
        for entry in matrix.get_row(state):
            flow[entry.column] += share * entry.value
    return max(map(abs, flow)) / max(rates)


def apart(work):
    """What `work` returns, in a process of its own; or the number of the signal that ended it, or None where it failed. And the most
    bytes that it held."""
    sys.stdout.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            with os.fdopen(write, "w", encoding="utf-8") as pipe:
                json.dump(work(), pipe)
            code = 0
        except BaseException as failed:
            print(failed, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status, used = os.wait4(child, 0)
    peak = used.ru_maxrss * 1024
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status), peak
    return json.loads(text) if text else None, peak


def alarm(seconds):
    """Has the system end this process after so many seconds, whatever library it is in; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def race(chain, conditions, pairs, cap):
    """The answers of those that get to the residual, the names of those that were stopped, and of those that got to another."""
    solved, stopped, missed = [], [], []
    for pair in pairs:
        most = min([answer["seconds"] for answer in solved] + [cap]) if cap else 0
        answer, _ = apart(lambda: attempt(chain, conditions, *pair, most))
        if answer == signal.SIGALRM:
            stopped.append(", ".join(pair))
        elif isinstance(answer, dict):
            solved.append(answer)
        else:
            missed.append(", ".join(pair))
    return solved, stopped, missed


def attempt(chain, conditions, solver, algorithm, most=0):
    precision = WANTED
    while precision > 1e-16:
        forget()
        alarm(most)
        began = time.perf_counter()
        shares = solve(chain, solver, algorithm, precision)
        members = [chain.labeling.get_states(f"({condition})") for condition in conditions]
        values = [sum(shares[state] for state in states) for states in members]
        seconds, peak = time.perf_counter() - began, memory("VmHWM")
        alarm(0)
        left = residual(chain, shares)
        # A comparison with what is no number is false.
        if left <= WANTED and abs(sum(shares) - 1) <= WANTED:
            return {"solver": f"{solver}, {algorithm}", "seconds": seconds, "peak": peak, "residual": left, "values": values}
        precision /= 10
    return None


def job(line, pairs):
    """The answer to one line of a file of jobs: what cannot be solved says why."""
    model, *conditions = line.rstrip("\n").split("\t")
    with open(model, encoding="utf-8") as file:
        text = file.read()
    try:
        chain, vanishing = generate(text, conditions)
    except (RuntimeError, SystemExit) as refused:
        return {"refused": str(refused)}
    tried = [attempt(chain, conditions, *pair) for pair in pairs]
    solved = [answer for answer in tried if answer is not None]
    return {"tangible": chain.nr_states, "vanishing": vanishing, "solved": solved}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--where", action="append", help="a condition as `queue >= 1`: its long-run probability")
    parser.add_argument("--jobs", help="a file: a line a model, its conditions after it, with tabs between them")
    parser.add_argument("--solvers", default=",".join(SOLVERS))
    parser.add_argument("--cap", type=float, default=0, help="seconds for the chain, and again for each solver; 0: as long as it takes")
    parser.add_argument("--generate-only", action="store_true", help="stop at the chain")
    options = parser.parse_args()
    stormpy.developer.set_log_level(stormpy.developer.LogLevel.ERR)
    pairs = [(solver, algorithm) for solver in options.solvers.split(",") for algorithm in ALGORITHMS]
    if options.jobs:
        with open(options.jobs, encoding="utf-8") as lines:
            for line in lines:
                print(json.dumps(job(line, pairs)), flush=True)
        return
    if not options.model or not options.where:
        parser.error("a model and --where are wanted, or --jobs")
    before = memory("VmRSS")
    told, peak = apart(lambda: answer(options, pairs))
    if told == signal.SIGALRM:
        least = {"generate_seconds": options.cap, "seconds": options.cap, "memory_bytes": peak - before}
        told = {"capped": True, "tangible": 0} | least
    if not isinstance(told, dict):
        raise SystemExit("no answer" if told is None else f"ended by signal {told}")
    print(json.dumps(told))


def answer(options, pairs):
    """The figures of one model."""
    with open(options.model, encoding="utf-8") as file:
        text = file.read()
    before = memory("VmRSS")
    known = forget()
    alarm(options.cap)
    began = time.perf_counter()
    chain, vanishing = generate(text, options.where)
    generated, peak = time.perf_counter() - began, memory("VmHWM")
    alarm(0)
    told = {"tangible": chain.nr_states, "vanishing": vanishing, "generate_seconds": generated}
    if options.generate_only:
        return told | {"memory_bytes": peak - before if known else None}
    solved, stopped, missed = race(chain, options.where, pairs, options.cap)
    told |= {"stopped": stopped, "missed": missed}
    if not solved and not stopped:
        raise SystemExit("no solver came to the residual")
    if not solved:
        return told | {"capped": True, "seconds": generated + options.cap}
    best = min(solved, key=lambda answer: answer["seconds"])
    return told | {
        "seconds": generated + best["seconds"],
        "memory_bytes": max(peak, best["peak"]) - before if known else None,
        "values": best["values"],
        "solver": best["solver"],
        "solved": solved,
    }


main()
