"""The results of peers.py as a page for people: docs/benchmarks.md, with a picture.

    python benchmarks/peers.py --json results.json
    python benchmarks/report.py results.json [--out docs]

Several files are merged; where two have the same case and thread count, the later one counts.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import micro

OURS = "tapecast"
COLOURS = {
    OURS: "#d1495b", "onnxruntime": "#30638e", "openvino": "#6a8d92", "torch": "#edae49", "torchscript": "#c9b79c",
    "inductor": "#7b6d8d",
}  # fmt: skip

Results = Mapping[str, Mapping[str, Mapping[str, float]]]


def ratio_to_best(found: Mapping[str, Mapping[str, float]], key: str = "best") -> tuple[float, str]:
    """Our time over that of the fastest peer, and which that is."""
    peers = {name: t[key] for name, t in found.items() if name != OURS}
    best = min(peers, key=peers.__getitem__)
    return found[OURS][key] / peers[best], best


def mean_of(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def by_threads(results: Results, threads: str) -> Results:
    """The cases that were run with so many threads and have us and a peer."""
    return {
        key.partition("/")[0]: found
        for key, found in results.items()
        if key.endswith(f"/{threads}") and OURS in found and len(found) > 1
    }


def table(cases: Results) -> str:
    """A row a case: the ratio, every contender's best time, and what ours cost to build."""
    names = [OURS, *sorted({n for found in cases.values() for n in found} - {OURS})]
    lines = [
        f"| case | ratio | of | {' | '.join(names)} | compile | first call | file |",
        f"| --- | ---: | --- | {' | '.join(['---:'] * len(names))} | ---: | ---: | ---: |",
    ]
    for case, found in cases.items():
        ratio, best = ratio_to_best(found)
        fastest = min(found, key=lambda n: found[n]["best"])
        times = []
        for n in names:
            text = micro(found[n]["best"]) if n in found else "—"
            times.append(f"**{text}**" if n == fastest else text)
        ours = found[OURS]
        cost = f"{ours['build']:.1f} s | {micro(ours['first'])} | {ours['bytes'] / 1e6:.2f} MB"
        lines.append(f"| {case} | {ratio:.2f} | {best} | {' | '.join(times)} | {cost} |")
    return "\n".join(lines)


def page(machine: str, results: Results, picture: str) -> str:
    """The whole page as Markdown."""
    parts = [
        "# Compiled models against their peers",
        "Written by `benchmarks/report.py` from a run of `benchmarks/peers.py`: float32, the same weights and results, "
        "every contender in a process of its own, in turns. Times are the best of all turns; the ratio is ours to the "
        "best peer's, so below 1 is faster. Compile is tracing and compiling together, from Python.",
        f"Machine: {machine}.",
        f"![Time over that of the best peer, by case]({picture})",
    ]
    for threads in sorted({key.partition("/")[2] for key in results}):
        cases = by_threads(results, threads)
        if not cases:
            continue
        ratios = [ratio_to_best(found)[0] for found in cases.values()]
        parts += [
            f"## {threads} thread{'s' if threads != '1' else ''}",
            f"Geometric mean {mean_of(ratios):.2f}, worst {max(ratios):.2f}, over {len(ratios)} cases.",
            table(cases),
        ]
    return "\n\n".join(parts) + "\n"


def draw(results: Results, path: Path) -> None:
    """Bars of every contender's time over ours, one panel a thread count; the line is where a peer is as fast."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = [t for t in sorted({key.partition("/")[2] for key in results}) if by_threads(results, t)]
    figure, panels = plt.subplots(
        len(counts), 1, figsize=(11, 3.6 * len(counts)), squeeze=False, layout="constrained"
    )
    for panel, threads in zip(panels[:, 0], counts, strict=True):
        cases = by_threads(results, threads)
        names = [n for n in COLOURS if n != OURS and any(n in found for found in cases.values())]
        width = 0.8 / len(names)
        for k, name in enumerate(names):
            places = [
                (i, found[name]["best"] / found[OURS]["best"])
                for i, found in enumerate(cases.values())
                if name in found
            ]
            panel.bar(
                [i + (k + 0.5) * width - 0.4 for i, _ in places], [r for _, r in places], width,
                label=name, color=COLOURS[name],
            )  # fmt: skip
        panel.axhline(1, color=COLOURS[OURS], linewidth=1.5, label=OURS)
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        panel.set_xticks(range(len(cases)), list(cases), rotation=20, ha="right")
        panel.set_ylabel("time over tapecast's")
        panel.set_title(
            f"{threads} thread{'s' if threads != '1' else ''}: above the line is slower than tapecast"
        )
        panel.legend(ncols=len(names) + 1, fontsize=8, frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs")
    args = parser.parse_args()
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in args.files]
    results: dict[str, Any] = {}
    for run in runs:
        results |= run["results"]
    args.out.mkdir(parents=True, exist_ok=True)
    draw(results, args.out / "benchmarks.png")
    (args.out / "benchmarks.md").write_text(
        page(runs[-1]["machine"], results, "benchmarks.png"), encoding="utf-8"
    )
    print(f"wrote {args.out / 'benchmarks.md'} and {args.out / 'benchmarks.png'}")


if __name__ == "__main__":
    main()
