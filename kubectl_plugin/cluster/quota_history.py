"""Reads the history of quotas: a ConfigMap per day in the scheduler's namespace; and prices from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

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
from scheduler_core.model.quotas.sharing import price_of

_THREADS: Final = 8
_MOST_DECIMALS: Final = 6


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
    """The prices in a file: `prices: {cpu: 0.03}`, and `currency`.

    Raises CommandFailed (unreadable) and ConfigError (invalid), which names field, value and rule.
    """
    import yaml

    try:
        content = yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise CommandFailed(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError("", f"is not YAML: {' '.join(str(error).split())}", file=file) from None
    if not isinstance(content, dict) or not isinstance(content.get("prices"), dict):
        raise ConfigError("prices", "is required: a map from resource to price", file=file)
    unknown = sorted(map(str, content.keys() - {"prices", "currency"}))
    if unknown:
        raise ConfigError(unknown[0], "is not known; known are prices and currency", file=file)
    currency = content.get("currency") or ""
    if not isinstance(currency, str) or len(currency) > 8:
        raise ConfigError("currency", f"{currency!r} must be a text of at most 8 characters", file=file)
    return PriceList(
        {str(name): _price(name, value, file) for name, value in content["prices"].items()}, currency
    )


def _loader() -> Any:
    """Numbers stay the text that they are in the file, so that 0.1 is a tenth."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads floats as texts."""

    Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: str(node.value))
    return Loader


_Loader: Final = _loader()


def _price(name: object, value: object, file: str) -> Fraction:
    found = price_of(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if found is None:
        rule = f"must be a number of at least 0 with at most {_MOST_DECIMALS} decimals"
        raise ConfigError(f"prices[{name}]", f"{value!r} {rule}", file=file)
    return found


def prices_for(quotas: Iterable[ElasticQuota], listed: PriceList) -> PriceOf:
    """The price of a resource in a namespace: the annotation of its quota, else that of the list."""
    own = {quota.namespace: quota.sharing.prices for quota in quotas}

    def price(namespace: str, resource: str) -> Fraction | None:
        return own.get(namespace, {}).get(resource, listed.prices.get(resource))

    return price
