"""Named state of a device: variables, queues, tables, iterators, by container and name.

A server has one manager a device, shared by all its sessions; a session with isolated state has its own. Each step also
has one for what lives only as long as the step (TensorArrays, stacks).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from dtfctl.runtime.framework.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError


class Resource:
    """Base of everything a ResourceManager holds. `type_name` is what handles and error texts call it."""

    type_name = "Resource"

    def close(self) -> None:
        """Release what the resource holds and wake whoever waits for it; called once, when it is removed."""

    def describe(self) -> str:
        return self.type_name


R = TypeVar("R", bound=Resource)


class ResourceManager:
    """Thread-safe map (container, name) -> Resource.

    Args:
        default_container: used where a node names none (a server's is its job name, TensorFlow's is "localhost").
    """

    def __init__(self, default_container: str = "localhost") -> None:
        self.default_container = default_container
        self._lock = threading.RLock()
        self._containers: dict[str, dict[str, Resource]] = {}
        # Grows whenever something is removed: what was found before may be gone.
        self.removals = 0

    def lookup(self, container: str, name: str, kind: type[R]) -> R:
        """Find the resource of a name.

        Raises:
            NotFoundError: there is none of that name.
            InvalidArgumentError: it is of another kind.
        """
        container = container or self.default_container
        with self._lock:
            held = self._containers.get(container)
            found = None if held is None else held.get(name)
        if found is None:
            raise _missing(container, name, f"{name}/{kind.type_name}", held is None)
        return self._checked(found, name, kind)

    def lookup_or_create(self, container: str, name: str, kind: type[R], create: Callable[[], R]) -> R:
        with self._lock:
            held = self._containers.setdefault(container or self.default_container, {})
            found = held.get(name)
            if found is None:
                found = held[name] = create()
        return self._checked(found, name, kind)

    def create(self, container: str, name: str, resource: Resource) -> None:
        """Add a resource.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        with self._lock:
            held = self._containers.setdefault(container or self.default_container, {})
            if name in held:
                raise AlreadyExistsError(f"Resource {container or self.default_container}/{name} already exists")
            held[name] = resource

    def replace(self, container: str, name: str, resource: Resource) -> None:
        """Add a resource in place of any of that name, which is closed."""
        with self._lock:
            held = self._containers.setdefault(container or self.default_container, {})
            old, held[name] = held.get(name), resource
            self.removals += 1
        if old is not None:
            old.close()

    def delete(self, container: str, name: str) -> None:
        """Remove and close a resource.

        Raises:
            NotFoundError: there is none of that name.
        """
        container = container or self.default_container
        with self._lock:
            held = self._containers.get(container)
            found = None if held is None else held.pop(name, None)
            self.removals += 1
        if found is None:
            raise _missing(container, name, name, held is None)
        found.close()

    def clear(self, container: str | None = None) -> None:
        """Remove and close everything in a container ("" is the default one); with None, everything."""
        with self._lock:
            self.removals += 1
            if container is None:
                gone = [r for held in self._containers.values() for r in held.values()]
                self._containers.clear()
            else:
                gone = list(self._containers.pop(container or self.default_container, {}).values())
        for resource in gone:
            resource.close()

    def all_of(self, kind: type[R]) -> list[R]:
        """List what it holds of a kind, in all containers."""
        with self._lock:
            return [found for held in self._containers.values() for found in held.values() if isinstance(found, kind)]

    def names(self, container: str = "") -> list[str]:
        with self._lock:
            return sorted(self._containers.get(container or self.default_container, {}))

    @property
    def is_empty(self) -> bool:
        return not self._containers

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._containers.values()))

    @staticmethod
    def _checked(found: Resource, name: str, kind: type[R]) -> R:
        if not isinstance(found, kind):
            raise InvalidArgumentError(
                f"Trying to access resource '{name}' of kind {found.type_name} as {kind.type_name}"
            )
        return found


def _missing(container: str, name: str, described: str, no_container: bool) -> NotFoundError:
    """Tell in TensorFlow's words a container nothing was ever put in from one without this resource."""
    if no_container:
        return NotFoundError(f"Container {container} does not exist. (Could not find resource: {container}/{name})")
    return NotFoundError(f"Resource {container}/{described} does not exist.")
