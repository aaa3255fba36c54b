"""The run lists of experiments: YAML files in lists/, and the systems that they compare.

    about: what the experiment shows
    full:                     and small: the same within about a minute on two cores
      - for: {model: [a, b], ranks: [8, 16]}     a run for each combination
        deck: inputs/models/paper/{model}.yaml   words in braces are those of `for`
        cluster: inputs/clusters/v100-8x8-10gbps-flat.yaml
        ranks: "{ranks}"
        system: "{system}"        of systems.yaml; or strategy: a name, a file or search
        search_with: {key: value} the strategy is what `hidup search` finds with these keys besides
        set: {key: value}         keys of the decks
        rate: 5                   Gbit/s of the links: of the test bed's hosts, else of the mesh
        profile: yes              measured runs take a profile first; else none, and deck's rates
        kind: search              how long the search takes, instead of steps
        places: [predict]         where this run makes sense; else everywhere

Paths are relative to the repository's root.
"""

import dataclasses
import itertools
import json
import pathlib

import yaml

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PLACES = ("predict", "mpirun", "testbed", "slurm")


class ListError(Exception):
    """What is wrong with a list, with its place."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run, and all that it depends on."""
    name: str
    at: dict  # the values of `for`, for figures
    deck: str
    cluster: str
    ranks: int
    strategy: str
    system: str = ""
    label: str = ""  # of the system, for people
    kind: str = "step"
    settings: dict = dataclasses.field(default_factory=dict)
    search_with: dict | None = None
    rate: float | None = None  # Gbit/s
    profile: bool = False
    places: tuple = PLACES

    def record(self, place):
        """All that a finished run depends on, as JSON gives it back."""
        record = dataclasses.asdict(self) | {"place": place}
        del record["places"]
        return json.loads(json.dumps(record))


def experiments():
    return sorted(path.stem for path in (HERE / "lists").glob("*.yaml"))


def read(name, size="full", more=()):
    """(about, runs) of lists/NAME.yaml, or of that file; more: (key, value) of --set."""
    path = pathlib.Path(name)
    if path.suffix != ".yaml":
        path = HERE / "lists" / f"{name}.yaml"
        if not path.exists():
            raise ListError(f"no experiment '{name}': there are {', '.join(experiments())}")
    text = _load(path)
    _check_keys(path.name, text, {"about", "full", "small"}, {"about", size})
    systems = _load(HERE / "systems.yaml")
    runs = {}
    for number, entry in enumerate(text[size], 1):
        place = f"{path.name}: {size}, entry {number}"
        for run in _expand(place, entry, systems, dict(more)):
            if run.name in runs:
                raise ListError(f"{place}: two runs are named {run.name}")
            runs[run.name] = run
    return text["about"], list(runs.values())


def _load(path):
    try:
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ListError(f"{path.name}: {error}") from error
    if not isinstance(text, dict):
        raise ListError(f"{path.name}: expected keys with values")
    return text


def _check_keys(place, given, known, needed):
    if not isinstance(given, dict):
        raise ListError(f"{place}: expected keys with values, found {given!r}")
    for key in given:
        if key not in known:
            raise ListError(f"{place}: unknown key {key}: there are {', '.join(sorted(known))}")
    for key in sorted(needed - set(given)):
        raise ListError(f"{place}: {key} is missing")


ENTRY = {"for", "name", "deck", "cluster", "ranks", "system", "strategy", "search_with", "set",
         "rate", "profile", "kind", "places"}


def _expand(place, entry, systems, more):
    _check_keys(place, entry, ENTRY, {"deck", "cluster", "ranks"})
    grid = entry.get("for", {})
    if not isinstance(grid, dict) or not all(isinstance(v, list) for v in grid.values()):
        raise ListError(f"{place}: for: expected names with lists of values")
    for values in itertools.product(*grid.values()):
        yield _run(place, entry, dict(zip(grid, values)), systems, more)


def _run(place, entry, at, systems, more):
    def filled(value):
        """With the values of `for` in the place of their names, and numbers as numbers."""
        if isinstance(value, dict):
            return {key: filled(each) for key, each in value.items()}
        if not isinstance(value, str) or "{" not in value:
            return value
        try:
            return yaml.safe_load(value.format(**at))
        except (KeyError, ValueError, IndexError, yaml.YAMLError) as error:
            raise ListError(f"{place}: '{value}' has names that `for` lacks: {error}") from error

    entry = {key: value if key in ("for", "places") else filled(value) for key, value in entry.items()}
    name = str(entry.get("name", "-".join(str(value) for value in at.values())))
    place = f"{place}, run {name}"
    if not name or "/" in name:
        raise ListError(f"{place}: a name is that of a file, without slashes")
    system = entry.get("system", "")
    if system and system not in systems:
        raise ListError(f"{place}: no system '{system}': there are {', '.join(systems)}")
    if bool(system) == ("strategy" in entry):
        raise ListError(f"{place}: expected a system or a strategy")
    known = systems.get(system, {"strategy": entry.get("strategy")})
    ranks, rate = entry["ranks"], entry.get("rate")
    places = entry.get("places", list(PLACES))
    if not isinstance(ranks, int) or ranks < 1:
        raise ListError(f"{place}: ranks is {ranks!r}: expected 1 or more")
    if rate is not None and (not isinstance(rate, (int, float)) or rate <= 0):
        raise ListError(f"{place}: rate is {rate!r}: expected Gbit/s")
    if entry.get("kind", "step") not in ("step", "search"):
        raise ListError(f"{place}: kind is {entry['kind']!r}: it can be step or search")
    if not isinstance(places, list) or not set(places) <= set(PLACES):
        raise ListError(f"{place}: places is {places!r}: it can be a list of {', '.join(PLACES)}")
    for key in ("deck", "cluster"):
        if not (SOURCE / str(entry[key])).is_file():
            raise ListError(f"{place}: {key}: there is no file {entry[key]}")
    return Run(name=name, at=at, deck=str(entry["deck"]), cluster=str(entry["cluster"]), ranks=ranks,
               strategy=known["strategy"], system=system, label=known.get("label", ""),
               kind=entry.get("kind", "step"),
               settings={**entry.get("set", {}), **known.get("set", {}), **more},
               search_with=entry.get("search_with", known.get("search_with")), rate=rate,
               profile=bool(entry.get("profile", False)), places=tuple(places))
