"""Container recipes: schemas, security standards, and commands that exist with their options."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from distributed.cli.dask_scheduler import main as dask_scheduler
from distributed.cli.dask_worker import main as dask_worker

from ooc_graph import __version__
from ooc_graph.cli.jobs import run
from ooc_graph.errors import ClusterLostError
from ooc_graph.jobs.model import AddressCluster
from ooc_graph.jobs.reading import read_job
from ooc_graph.runtime.signals import EXIT_TERMINATED
from tests.command_line import REPOSITORY

KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
IMAGE = REPOSITORY / "deploy" / "image"
COMPOSE = REPOSITORY / "deploy" / "compose" / "compose.yaml"
VERSIONS = "1.31", "1.34"
"""Of Kubernetes: some that are in use."""
DASK_JOBS = "daskjob.yaml", "daskjob-gpu.yaml"
NEEDS_CUDA = "dask", "cuda", "worker"


def documents() -> list[dict[str, Any]]:
    paths = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.stem != "kustomization"]
    return [one for path in paths for one in yaml.safe_load_all(path.read_text())]


def pod_specs(document: Any) -> Iterator[dict[str, Any]]:
    """All specs of pods in a document."""
    if isinstance(document, dict):
        if "containers" in document:
            yield document
        for inner in document.values():
            yield from pod_specs(inner)


PODS = {
    f"{one['kind']} {one['metadata']['name']} {number}": spec
    for one in documents()
    for number, spec in enumerate(pod_specs(one))
}


def parsed(words: list[str]) -> dict[str, Any]:
    """Options of a command, as the command itself reads them; it fails if there is none."""
    known = {("ooc-graph", "run"): run, ("dask", "scheduler"): dask_scheduler}
    known["dask", "worker"] = dask_worker
    program, name, *rest = words
    parent = click.Context(click.Group())
    found: dict[str, Any] = known[program, name].make_context(name, rest, parent=parent).params
    return found


def test_what_there_is() -> None:
    kinds = sorted(one["kind"] for one in documents())
    policies, jobs = ["NetworkPolicy"] * 2, ["DaskJob"] * 2
    assert kinds == ["CronJob", *jobs, "Namespace", *policies, "PersistentVolumeClaim"]
    assert len(PODS) == 1 + 2 * 3
    for one in documents():
        assert one["metadata"].get("namespace", "graphs") == "graphs"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes(version: str) -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")
    core = [one for one in documents() if one["kind"] != "DaskJob"]
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    for one in [*core, *({**bare, "spec": spec} for spec in PODS.values())]:
        checker.validate(one, version, strict=True)
    wrong = json.loads(json.dumps(core[0]))
    wrong["spec"]["concurrencyPolcy"] = "Forbid"
    with pytest.raises(checker.ValidationError):
        checker.validate(wrong, version, strict=True)


@pytest.mark.parametrize("name", DASK_JOBS)
def test_the_schemas_of_the_dask_operator(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs kubernetes-validate")
    found = find_spec("dask_kubernetes")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs dask-kubernetes")
    chart = "operator/deployment/helm/dask-kubernetes-operator/crds/daskjob.yaml"
    definition = yaml.safe_load((Path(found.submodule_search_locations[0]) / chart).read_text())
    document = yaml.safe_load((KUBERNETES / name).read_text())
    version = next(one for one in definition["spec"]["versions"] if one["served"])
    assert document["apiVersion"] == f"{definition['spec']['group']}/{version['name']}"
    schema = version["schema"]["openAPIV3Schema"]
    jsonschema.validate(document, schema)
    del document["spec"]["cluster"]["spec"]["scheduler"]["service"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_pods_ask_for_nothing_that_is_restricted(pod: dict[str, Any]) -> None:
    """By https://kubernetes.io/docs/concepts/security/pod-security-standards/, and a bit less."""
    own = pod["securityContext"]
    assert own["runAsNonRoot"]
    assert own["runAsUser"] == own["runAsGroup"] == own["fsGroup"] == 10001
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    kinds = {kind for volume in pod["volumes"] for kind in volume.keys() - {"name"}}
    assert kinds <= {"persistentVolumeClaim", "emptyDir", "configMap"}
    mounted = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} == mounted
        assert {"/data", "/tmp", "/cache"} <= {m["mountPath"] for m in container["volumeMounts"]}


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_commands_of_pods(pod: dict[str, Any]) -> None:
    for container in pod["containers"]:
        words = container["args"]
        if tuple(words[:3]) == NEEDS_CUDA:
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
            assert container["image"].endswith("-cuda13")
            words = ["dask", *words[2:]]  # Dask's own has these options too
        assert all(isinstance(word, str) for word in words)
        found = parsed(words)
        if words[1] == "worker":
            limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi"))
            assert int(found["memory_limit"].removesuffix("GiB")) < limit
            assert str(found["nthreads"]) == container["resources"]["limits"]["cpu"]


@pytest.mark.parametrize("name", DASK_JOBS)
def test_the_job_as_the_operator_runs_it(name: str) -> None:
    document = yaml.safe_load((KUBERNETES / name).read_text())
    (container,) = document["spec"]["job"]["spec"]["containers"]
    address = f"tcp://{document['metadata']['name']}-scheduler.graphs.svc.cluster.local:8786"
    words = [one.replace("$(DASK_SCHEDULER_ADDRESS)", address) for one in container["args"]]
    found = parsed(words)
    assert found["job"] == Path("/jobs/night.toml")
    job = read_job(KUBERNETES / "night.toml", found["settings"])
    assert job.cluster == AddressCluster(kind="address", address=address)
    assert (job.resources.device == "cuda") == ("gpu" in name)
    selector = document["spec"]["cluster"]["spec"]["scheduler"]["service"]["selector"]
    assert selector["dask.org/cluster-name"] == document["metadata"]["name"]


def test_the_night_and_its_exit_codes() -> None:
    (cron,) = (one for one in documents() if one["kind"] == "CronJob")
    job = cron["spec"]["jobTemplate"]["spec"]
    fails = [one for one in job["podFailurePolicy"]["rules"] if one["action"] == "FailJob"]
    codes = fails[0]["onExitCodes"]["values"]
    assert codes == [1, 2, 3]
    assert not {ClusterLostError.exit_code, EXIT_TERMINATED} & set(codes)
    pod = job["template"]["spec"]
    # Kubernetes demands it of Jobs with such a policy.
    assert pod["restartPolicy"] == "Never"
    assert [one["name"] for one in pod["containers"]] == [fails[0]["onExitCodes"]["containerName"]]


def test_policies_let_only_dask_in() -> None:
    policies = {
        one["metadata"]["name"]: one["spec"]
        for one in documents()
        if one["kind"] == "NetworkPolicy"
    }
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    # An empty peer would be everybody.
    for rules in (policies["dask"]["ingress"], policies["dask"]["egress"]):
        peers = [peer for rule in rules for peer in rule.get("from", rule.get("to"))]
        assert all(any(selector for selector in peer.values()) for peer in peers)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize(tmp_path: Path) -> None:
    line = ["kubectl", "kustomize", str(KUBERNETES)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    found = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    (tmp_path / "night.toml").write_text(found["ConfigMap"]["data"]["night.toml"])
    assert found["ConfigMap"]["metadata"]["name"] == "jobs"
    assert read_job(tmp_path / "night.toml").name == "night"


def test_the_image() -> None:
    text = (IMAGE / "Dockerfile").read_text()
    froms = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(set(froms)) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", froms[0])
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "--require-hashes -r constraints/locked.txt" in text
    sent = re.findall(r"^!(\S+)$", (IMAGE / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((REPOSITORY / name).exists() for name in sent)
    assert {"ooc_graph", "pipelines", "pyproject.toml", "constraints"} <= set(sent)


def test_images_are_of_this_version() -> None:
    compose = yaml.safe_load(COMPOSE.read_text())["services"].values()
    images = [one["image"] for pod in PODS.values() for one in pod["containers"]]
    for image in [*images, *(service["image"] for service in compose)]:
        assert image.removesuffix("-cuda13") == f"ooc-graph:{__version__}"


def test_services_of_compose() -> None:
    document = yaml.safe_load(COMPOSE.read_text())
    services = document["services"]
    assert set(services) == {"scheduler", "worker", "job"}
    assert document["networks"]["dask"] == {"internal": True}
    for service in services.values():
        assert service["user"] == "10001:10001"
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
        assert {"data:/data", "cache:/cache"} == set(service["volumes"])
        assert service["networks"] == ["dask"]
        parsed(service["command"])
    settings = parsed(services["job"]["command"])["settings"]
    job = read_job(KUBERNETES / "night.toml", settings)
    assert job.cluster == AddressCluster(kind="address", address="tcp://scheduler:8786")


def test_compose_itself() -> None:
    line = ["docker", "compose"]
    if shutil.which("docker") is None or subprocess.call([*line, "version"], timeout=60):
        pytest.skip("needs docker compose")
    call = [*line, "-f", str(COMPOSE), "--profile", "job", "config", "--quiet"]
    subprocess.run(call, check=True, timeout=60)
