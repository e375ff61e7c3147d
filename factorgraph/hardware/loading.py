"""From a name or a card's path to a `Sku`."""

import os
from pathlib import Path
from typing import Any

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.hardware.facts import FactFile
from factorgraph.hardware.generation import GENERATIONS_FILE, list_generations, load_generation
from factorgraph.hardware.sku import BY_TYPE, DTYPES, QUANTITIES, Contradiction, Sku, quantities_of
from factorgraph.paths import search_path


def list_skus() -> tuple[str, ...]:
    """Names that `load_sku` knows: cards of the user's own (FACTORGRAPH_PATH) and the bundled ones.

    Examples:
        >>> "h100-sxm" in list_skus()
        True
    """
    return tuple(sorted(_cards()))


def load_sku(sku: str | os.PathLike[str] | Sku) -> Sku:
    """Read a GPU's card.

    Args:
        sku: a name from `list_skus()`, in full and in either case; the path of a card, which ends in .toml or has a
            folder in it; or a `Sku`, which comes back as it is.

    Raises:
        UnknownNameError: no card has that name; the nearest names are given. A part of a name finds nothing.
        FactorGraphError: the card cannot be read, or states a number wrongly: file, line and key are named.

    Examples:
        >>> load_sku("h100-sxm").dram_bandwidth
        3350000000000.0
    """
    if isinstance(sku, Sku):
        return sku
    if isinstance(sku, os.PathLike) or (isinstance(sku, str) and (sku.endswith(".toml") or os.sep in sku)):
        return _read(Path(sku).expanduser())
    if not isinstance(sku, str):
        raise FactorGraphError(f"{sku!r} is no GPU; give a name such as 'h100-sxm', a card's path or a Sku")
    cards = _cards()
    name = sku.strip().lower()
    if name not in cards:
        raise UnknownNameError("GPU", sku, cards)
    return _read(cards[name])


def _cards() -> dict[str, Path]:
    """Cards by name; the first folder of the search path wins."""
    found: dict[str, Path] = {}
    for folder in search_path("hardware"):
        for file in folder.glob("*.toml"):
            if file.name != GENERATIONS_FILE:
                found.setdefault(file.stem.lower(), file)
    return found


def _read(file: Path) -> Sku:
    card = FactFile(file)
    card.check_keys((), ["title", "generation", "dram_ecc_inline", *QUANTITIES, *BY_TYPE])
    quantities = quantities_of(str(card.content.get("generation")))
    stated = [key for key, quantity in quantities.items() if quantity.required or key in card.content]
    facts = {key: card.number((key,), quantities[key]) for key in stated if key in QUANTITIES}
    facts["dram_ecc_inline"] = card.flag(("dram_ecc_inline",))
    by_type: dict[str, Any] = {key: {} for key in BY_TYPE}
    for key in (key for key in stated if key in BY_TYPE):
        card.check_keys((key,), DTYPES)
        rows = {dtype: card.number((key, dtype), quantities[key]) for dtype in card.keys((key,))}
        facts |= {f"{key}.{dtype}": fact for dtype, fact in rows.items()}
        by_type[key] = {dtype: fact.value for dtype, fact in rows.items()}
        if not rows:
            raise card.fault((key,), f"is empty; add a line {key}.bf16 = {{ {quantities[key].example} }}")
    generation = card.text(("generation",))
    if generation not in list_generations():
        unknown = UnknownNameError("generation", generation, list_generations())
        raise card.fault(("generation",), f"names an {unknown}")
    numbers: dict[str, Any] = {key: facts[key].value for key in QUANTITIES if key in facts}
    try:
        return Sku(
            name=file.stem.lower(),
            title=card.text(("title",)),
            architecture=load_generation(generation),
            dram_ecc_inline=bool(facts["dram_ecc_inline"].value),
            power_cap=facts["tdp"].value,
            facts=facts,
            **by_type,
            **numbers,
        )
    except Contradiction as error:
        key = "tdp" if error.key == "power_cap" else error.key
        raise card.fault(key.split("."), error.complaint) from None
