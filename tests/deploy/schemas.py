#!/usr/bin/env python3
"""Checks manifests: schemas.py PARACORD FOLDER

Those of deploy/kubernetes, and what `paracord render` writes, against the schemas of the oldest and
the newest Kubernetes that the package kubernetes-validate knows; the two ways to the same objects
against each other; that each container's program takes the flags it is given, and none twice; and
that the check of a real cluster runs what the page shows.

FOLDER keeps the package. Where neither that nor a package index has it, where there is no kubectl
for the overlays, or no YAML reader, what is left out is counted and said.
"""
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
TRIED = ("kubectl", "paracord")
# What the functions of the check call the words that the page shows.
MEANT = {"\\\n": "",
         '"$work/counting/job.json"': "job.json", '"$work/counting.yaml"': "counting.yaml",
         '"$work/nodes.yaml"': "nodes.yaml", '"$work/claim.yaml"': "claim.yaml",
         '"$(field endpoint <"$work/store.json")"': "https://s3.example.com",
         '"$(field key_id <"$work/store.json")"': "KEY",
         '"$(field secret <"$work/store.json")"': "SECRET",
         '"$1-$role-tls"': "fashion-mnist-$role-tls", '"$2/$role.crt"': "$certs/$role.crt",
         '"$2/${3:-$role}.key"': "$certs/$role.key", '"$2/ca.crt"': "$certs/ca.crt"}
ANNOTATION = 'Ada: "x"\n# \x7f\u2028'
NO_SCHEMA = {"TFJob", "JobSet", "ServiceMonitor", "PodMonitor"}  # resources that operators define


def packages(folder):
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("kubernetes_validate"), importlib.import_module("yaml")
    except ImportError:
        pass
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder,
                          "--disable-pip-version-check", "--root-user-action", "ignore",
                          "--retries", "1", "--timeout", "10", "kubernetes-validate"],
                         capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    if pip.returncode != 0:
        return None, None
    return importlib.import_module("kubernetes_validate"), importlib.import_module("yaml")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def texts(paracord):
    """The YAML of each way to run a job, by its name; and how many ways could not be taken."""
    found, left_out = {}, 0
    for folder in ["base"] + [f"overlays/{path.name}"
                              for path in sorted((KUBERNETES / "overlays").iterdir())]:
        try:
            found[folder] = run("kubectl", "kustomize", str(KUBERNETES / folder))
        except FileNotFoundError:
            left_out += 1
    job = str(KUBERNETES / "base" / "job.json")
    render = [paracord, "render", "kubernetes", job, "--ps-kind", "statefulset"]
    found["storage.yaml"] = (KUBERNETES / "storage.yaml").read_text(encoding="utf-8")
    found["render storage"] = run(paracord, "render", "storage", job)
    found["render storage with all"] = run(paracord, "render", "storage", job, "--name", "it",
                                           "--storage-size", "1Gi", "--storage-class", "fast",
                                           "--namespace", "ml")
    found["render by default"] = run(paracord, "render", "kubernetes", job)
    found["render"] = run(*render, "--image", "localhost/paracord-fashion-mnist:0.1.0")
    found["render with all"] = run(*render, "--ps", "4", "--workers", "16", "--gpus", "1",
                                   "--storage", "claim", "--data", "other", "--name", "it")
    found["render with TLS"] = run(*render, "--tls", "--image",
                                   "localhost/paracord-fashion-mnist:0.1.0")
    image = ("--image", "localhost/paracord-fashion-mnist:0.1.0")
    found["render monitored"] = run(*render, "--monitoring", *image)
    found["render monitored with TLS"] = run(*render, "--monitoring", "--tls", *image)
    found["render with GPUs"] = run(*render, "--gpus", "1", "--image",
                                    "localhost/paracord-fashion-mnist:0.1.0-cuda")
    found["render with spot nodes"] = run(*render, "--spot", *image)
    found["render with spot nodes and all"] = run(*render, "--spot", "--tls", "--monitoring",
                                                  "--gpus", "1", "--toleration", "a:NoSchedule")
    default = render[:-2]
    found["render in a queue"] = run(*default, "--queue", "team", "--ttl", "1d",
                                     "--export", "/job/m.safetensors", "--namespace", "ml")
    nodes = (*render, "--ps", "0", "--workers", "2")
    found["render without ps"] = run(*nodes, *image)
    found["render without ps, with all"] = run(*default, "--ps", "0", "--tls", "--monitoring",
                                               "--gpus", "2", "--queue", "team", "--ttl", "1d",
                                               "--allow-programs", "--data", "other")
    found["render with flags of pods"] = run(
        *default, "--label", "team=1", "--annotation", f"on={ANNOTATION}",
        "--node-selector", "1=true", "--toleration", "true=1:NoSchedule",
        "--toleration", ":NoExecute", "--image-pull-policy", "Always",
        "--export", "/job/m.safetensors")
    found["render on object storage"] = run(*render, "--storage", "s3://bucket/job")
    for path in ("tfjob/storage.yaml", "jobset/storage.yaml", "jobset/jobset.yaml",
                 "tfjob/tfjob.yaml", "tfjob/mirrored.yaml"):
        found[path] = (KUBERNETES / path).read_text(encoding="utf-8")
        if not path.endswith("storage.yaml"):
            found[f"pods of {path}"] = run(
                sys.executable, str(ROOT / "tests/deploy/operators.py"), str(KUBERNETES / path))
    return found, left_out


def same_objects(rendered, kustomized):
    """A ConfigMap's JSON may be laid out differently, and flags may have another order; the rest is
    equal."""
    def by_name(documents):
        objects = {}
        for document in documents:
            for container in containers(document):
                container["args"] = sorted(container.get("args", []))
            if document["kind"] == "ConfigMap":
                cluster = json.loads(document["data"].pop("cluster.json"))
                document["data"] = {"keys": sorted(document["data"]), "cluster": cluster}
            objects[(document["kind"], document["metadata"]["name"])] = document
        return objects
    ours, theirs = by_name(rendered), by_name(kustomized)
    for key in sorted(set(ours) | set(theirs)):
        if ours.get(key) != theirs.get(key):
            sys.exit(f"{key} differs:\nrendered   {ours.get(key)}\nkustomized {theirs.get(key)}")


def flags_are_on_pods(documents):
    """A reader of YAML finds on all pods what the flags said, as the text that it was."""
    for one in documents:
        pod = one.get("spec", {}).get("template")
        if pod is None:
            continue
        if pod["metadata"]["labels"].get("team") != "1":
            sys.exit(f"pods of {one['metadata']['name']} lack the label of --label")
        if pod["metadata"]["annotations"] != {"on": ANNOTATION}:
            sys.exit(f"pods of {one['metadata']['name']} have other annotations than --annotation")
        if pod["spec"]["nodeSelector"] != {"1": "true"}:
            sys.exit(f"pods of {one['metadata']['name']} choose other nodes than --node-selector")


def the_claim_is_apart(name, documents):
    """Whoever deletes the objects of a job keeps its checkpoints."""
    for one in documents:
        if one["kind"] == "PersistentVolumeClaim":
            sys.exit(f"{name}: `kubectl delete` of it would delete the claim "
                     f"{one['metadata']['name']} and the checkpoints in it")


def an_upgrade_deletes_all(documents):
    """What the page deletes before a new image is applied are all objects that refuse one or would
    take it too early."""
    page = (ROOT / "docs" / "upgrade-and-backup.md").read_text(encoding="utf-8")
    deleted = {word for line in page.splitlines() if line.startswith("kubectl delete ")
               for word in line.split()}
    for one in documents:
        name = f"{one['kind'].lower()}/{one['metadata']['name']}"
        if one["kind"] in ("Job", "StatefulSet") and name not in deleted:
            sys.exit(f"docs/upgrade-and-backup.md does not delete {name}")


def commands_are_tried():
    """What the page tells people to type is what the check of a real cluster runs."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    text = "".join((KUBERNETES / name).read_text(encoding="utf-8") for name in ("check", "faults"))
    for said, meant in MEANT.items():
        text = text.replace(said, meant)
    check = " ".join(text.split())
    shown = [line for block in page.split("```sh\n")[1:]
             for line in block.split("```")[0].splitlines() if line.split()[0] in TRIED]
    for line in shown:
        words = " ".join(line.split())
        if words not in check and re.sub("( --(ps|workers|storage|export) [^ ]+)+",
                                                    ' "$@"', words) not in check:
            sys.exit(f"deploy/kubernetes/check does not run: {line}")
    return len(shown)


def monitored(documents):
    """Each port that a monitor scrapes is one that what it selects has, and it speaks TLS there if
    that has certificates, of an authority that is there."""
    pods = [one["spec"]["template"]["spec"] for one in documents
            if "template" in one.get("spec", {})]
    tls = [any(flag.startswith("--tls-cert") for flag in pod["containers"][0].get("args", []))
           for pod in pods]
    secrets = {volume["secret"]["secretName"] for pod in pods for volume in pod.get("volumes", [])
               if "secret" in volume}

    def labels_match(selector, labels):
        return selector["matchLabels"].items() <= labels.items()
    for one in documents:
        if one["kind"] == "ServiceMonitor":
            names = [{port["name"] for port in service["spec"]["ports"]} for service in documents
                     if service["kind"] == "Service"
                     and labels_match(one["spec"]["selector"], service["metadata"]["labels"])]
            wanted = one["spec"]["endpoints"]
        elif one["kind"] == "PodMonitor":
            templates = [pods["spec"]["template"] for pods in documents
                         if "template" in pods.get("spec", {})]
            names = [{port["name"] for port in template["spec"]["containers"][0]["ports"]}
                     for template in templates
                     if labels_match(one["spec"]["selector"], template["metadata"]["labels"])]
            wanted = one["spec"]["podMetricsEndpoints"]
        else:
            continue
        for end in wanted:
            if (end.get("scheme") == "https") != all(tls) or any(tls) != all(tls):
                sys.exit(f"{one['metadata']['name']} takes HTTPS for HTTP, or HTTP for HTTPS")
            if all(tls) and end["tlsConfig"]["ca"]["secret"]["name"] not in secrets:
                sys.exit(f"{one['metadata']['name']} believes a Secret that no pod has")
        if not names or any(end["port"] not in found for end in wanted for found in names):
            sys.exit(f"{one['metadata']['name']} scrapes a port that is not there: {names}")


def containers(value):
    """All containers in an object, wherever it has its pods."""
    if isinstance(value, dict):
        yield from value.get("containers") or []
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from containers(one)


def pod_specs(value):
    """All specifications of pods in an object."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from pod_specs(one)


def pods_are_closed(name, documents):
    """Pods show no account to strangers, their containers may do nothing more than compute, and
    those that speak plain text are behind a network policy."""
    for one in documents:
        where = f"{name}: {one['kind']} {one['metadata']['name']}"
        for pod in pod_specs(one):
            if pod.get("automountServiceAccountToken") is not False:
                sys.exit(f"{where}: its pods hold a token of their service account")
            if not pod.get("securityContext", {}).get("runAsNonRoot"):
                sys.exit(f"{where}: its pods may run as root")
            for container in pod["containers"]:
                own = container.get("securityContext", {})
                if own.get("allowPrivilegeEscalation") is not False or "capabilities" not in own:
                    sys.exit(f"{where}: {container['name']} may gain privileges")
                words = container["command"] + container.get("args", [])
                policies = [policy for policy in documents if policy["kind"] == "NetworkPolicy"]
                if "--insecure" in words and not policies:
                    sys.exit(f"{where}: {container['name']} is open to every pod")


def flags_are_taken(folder, name, documents, known):
    """Each program takes the flags that its container and its probes give it, and none twice."""
    def check(where, words):
        program = words[:2] if words[0] == "paracord" else words[:1]
        if tuple(program) not in known:
            said = run(str(folder / program[0]), *program[1:], "--help=words")
            known[tuple(program)] = {line.split("\t")[0] for line in said.splitlines()}
        flags = [word.split("=")[0] for word in words if word.startswith("--")]
        for flag in flags:
            if flag not in known[tuple(program)]:
                sys.exit(f"{name}: {where}: {' '.join(program)} has no {flag}")
            if flags.count(flag) > 1:
                sys.exit(f"{name}: {where}: {' '.join(program)} is given {flag} twice")
        return 1
    checked = 0
    for one in documents:
        for container in containers(one):
            where = f"{one['kind']} {one['metadata']['name']}"
            checked += check(where, container["command"] + container.get("args", []))
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if probe in container:
                    checked += check(f"{where}, {probe}", container[probe]["exec"]["command"])
    return checked


def main():
    paracord, folder = sys.argv[1:]
    validate, yaml = packages(folder)
    if validate is None:
        print("skipped: 1 (kubernetes-validate is not here, and no package index gives it)")
        return
    os.environ["PYTHONPATH"] = folder
    found, left_out = texts(paracord)
    schemas = pathlib.Path(validate.__file__).parent / "kubernetes-json-schema"
    versions = sorted({tuple(int(n) for n in path.name.split("-")[0][1:].split("."))
                       for path in schemas.iterdir()})
    checked, commands, known = 0, 0, {}
    documents = {name: list(yaml.safe_load_all(text)) for name, text in found.items()}
    for name, objects in documents.items():
        for one in objects:
            if one["kind"] in NO_SCHEMA:
                continue
            for version in (versions[0], versions[-1]):
                try:
                    validate.validate(one, ".".join(map(str, version[:2])), True)
                except validate.ValidationError as error:
                    sys.exit(f"{name}: {one['kind']} {one['metadata']['name']}: {error}")
                checked += 1
        monitored(objects)
        pods_are_closed(name, objects)
        commands += flags_are_taken(pathlib.Path(paracord).parent, name, objects, known)
    flags_are_on_pods(documents["render with flags of pods"])
    for name in ("render", "render with flags of pods"):
        an_upgrade_deletes_all(documents[name])
    same_objects(documents["render storage"], documents["storage.yaml"])
    for name, objects in documents.items():
        if not name.endswith("storage.yaml") and not name.startswith("render storage"):
            the_claim_is_apart(name, objects)
    if "base" in documents:
        same_objects(documents["render with GPUs"], documents["overlays/gpu"])
        same_objects(documents["render with spot nodes"], documents["overlays/spot"])
        same_objects(documents["render"], documents["base"])
        same_objects(documents["render without ps"], documents["overlays/nodes"])
        same_objects(documents["render with TLS"], documents["overlays/tls"])
        same_objects(documents["render monitored"], documents["overlays/monitored"])
        same_objects(documents["render monitored with TLS"], documents["overlays/monitored-tls"])
    print(f"{commands_are_tried()} commands of the page are tried, {commands} of containers known")
    print(f"{checked} checks of objects, of {versions[0]} and {versions[-1]}")
    if left_out:
        print(f"skipped: {left_out} (there is no kubectl to run kustomize)")


main()
