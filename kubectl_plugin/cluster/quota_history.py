"""Reads the history of quotas: a ConfigMap per day in the scheduler's namespace; and prices from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_raw
from kubectl_plugin.live.configuration import config_of_cluster
from scheduler_core.answers.showback import Period, PriceOf
from scheduler_core.decoding import decode
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.kube.errors import Forbidden
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_history import (
    BINARY_KEY,
    TEXT_KEY,
    Payload,
    QuotaHistoryDay,
    days_between,
    name_of,
    parse_day,
)
from scheduler_core.model.quotas.sharing import ONE_PRICE_RULE, price_of

if TYPE_CHECKING:
    import yaml

_THREADS: Final = 8
_MOST_CURRENCY: Final = 8


class HistoryRead(msgspec.Struct, frozen=True):
    """The days that were read, the oldest first, and what of them is unreadable."""

    days: tuple[QuotaHistoryDay, ...] = ()
    broken: tuple[ModelError, ...] = ()


class HistoryDenied(CommandFailed):
    """The right to read the history is missing, in this namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        super().__init__(
            f"the history of quotas is in the ConfigMaps muster-history-DAY of namespace {namespace}: "
            "it needs the right to list configmaps there"
        )


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


def read_days(client: ListClient, period: Period, namespace: str) -> HistoryRead:
    """The days of a period. Days without a ConfigMap are left out.

    Raises the ApiError tree, and HistoryDenied.
    """
    days = days_between(period.since, period.until)
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            found = list(pool.map(lambda day: _read(client, day, namespace), days))
        except Forbidden:
            raise HistoryDenied(namespace) from None
    read = [item for item in found if isinstance(item, QuotaHistoryDay)]
    return HistoryRead(tuple(read), tuple(item for item in found if isinstance(item, ModelError)))


def recorded_days(client: ListClient, now: float, seconds: float) -> tuple[QuotaHistoryDay, ...]:
    """The days that can be read, for those who may; nothing for others. Raises the ApiError tree."""
    namespace = config_of_cluster(client).config.leader_election.resource_namespace
    try:
        return read_days(client, Period.back(now, seconds), namespace).days
    except HistoryDenied:
        return ()


def _read(client: ListClient, day: date, namespace: str) -> QuotaHistoryDay | ModelError | None:
    """A day, the error of one that cannot be read, or None where there is none."""
    scope = ListScope(namespace, fields=f"metadata.name={name_of(day)}")
    for raw in list_raw(client, CONFIG_MAPS, scope):
        try:
            wire = decode(raw, _ConfigMap)
            text = (wire.data or {}).get(TEXT_KEY, "")
            return parse_day(Payload(text, (wire.binary_data or {}).get(BINARY_KEY, "")), day)
        except ModelError as error:
            return error.within("ConfigMap", namespace, name_of(day))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return ModelError("data", str(error)).within("ConfigMap", namespace, name_of(day))
    return None


class PriceList(msgspec.Struct, frozen=True):
    """Prices per unit and hour of the whole cluster, and their currency; both may be empty."""

    prices: Mapping[str, Fraction] = {}
    currency: str = ""


def price_list(file: str) -> PriceList:
    """The prices in a file: `prices: {cpu: 0.03}`, and `currency`; without a file there are none.

    Raises CommandFailed (unreadable) and ConfigError (invalid), which names field, value and rule.
    """
    if not file:
        return PriceList()
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        root = yaml.compose(Path(file).read_text(encoding="utf-8"), Loader=loader)
    except OSError as error:
        raise CommandFailed(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError("", f"is not YAML: {' '.join(str(error).split())}", file=file) from None
    fields = _entries(root, "", file) or {}
    prices = _entries(fields.get("prices"), "prices", file)
    if prices is None:
        raise ConfigError("prices", "is required: a map from resource to price", file=file)
    unknown = sorted(fields.keys() - {"prices", "currency"})
    if unknown:
        raise ConfigError(unknown[0], "is not known; known are prices and currency", file=file)
    currency = fields.get("currency")
    return PriceList(
        {name: _price(name, value, file) for name, value in prices.items()},
        _currency(currency, file) if currency is not None else "",
    )


def _entries(node: yaml.Node | None, path: str, file: str) -> dict[str, yaml.Node] | None:
    """The entries of a map, None for what is none. Scalars keep their text: 0.1 is a tenth, 1:30 is no 90.

    Raises ConfigError.
    """
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(path, f"has {_shown(key)} as a key, which must be a text", file=file)
        if key.value in found:
            line = key.start_mark.line + 1
            name = f"{path}[{key.value}]" if path else key.value
            raise ConfigError(name, f"is there twice, again in line {line}: {_shown(value)}", file=file)
        found[key.value] = value
    return found


def _shown(node: yaml.Node) -> str:
    """What is in the file, for messages."""
    return repr(node.value) if isinstance(node.value, str) else "a list or a map"


def _currency(node: yaml.Node, file: str) -> str:
    text = node.value
    if node.tag == "tag:yaml.org,2002:null":
        return ""
    if not isinstance(text, str) or len(text) > _MOST_CURRENCY:
        rule = f"must be a text of at most {_MOST_CURRENCY} characters"
        raise ConfigError("currency", f"{_shown(node)} {rule}", file=file)
    return text


def _price(name: str, node: yaml.Node, file: str) -> Fraction:
    found = price_of(node.value) if isinstance(node.value, str) else None
    if found is None:
        raise ConfigError(f"prices[{name}]", f"{_shown(node)} {ONE_PRICE_RULE}", file=file)
    return found


def unused_prices(listed: PriceList, days: Iterable[QuotaHistoryDay]) -> str:
    """A sentence about prices of resources that no quota was measured with; empty without such."""
    known = {name for day in days for resources in day.quotas.values() for name in resources}
    unused = sorted(listed.prices.keys() - known)
    if not unused:
        return ""
    return f"no quota was measured with the resources of these prices: {', '.join(unused)}"


def prices_for(quotas: Iterable[ElasticQuota], listed: PriceList) -> PriceOf:
    """The price of a resource in a namespace: the annotation of its quota, else that of the list.

    Of several quotas in a namespace, the oldest counts, as everywhere.
    """
    youngest_first = sorted(quotas, key=lambda quota: quota.age_order, reverse=True)
    own = {quota.namespace: quota.sharing.prices for quota in youngest_first}

    def price(namespace: str, resource: str) -> Fraction | None:
        return own.get(namespace, {}).get(resource, listed.prices.get(resource))

    return price
