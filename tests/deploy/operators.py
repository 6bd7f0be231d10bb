#!/usr/bin/env python3
"""Plays the operators of Kubeflow and JobSet: operators.py FILE

Prints what each would make of the TFJob or JobSet in FILE, and the other objects as they are: for a
TFJob a pod and a headless Service a replica, with TF_CONFIG as training operator 1.9 writes it; for
a JobSet its Jobs and the headless Service of their hosts, as JobSet 0.12 does.
"""
import copy
import json
import sys

import yaml

PORT = 2222
TYPES = {"Chief": "chief", "Master": "master", "PS": "ps", "Worker": "worker",
         "Evaluator": "evaluator"}


def headless(name, labels, port=None, unready=False):
    spec = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": unready}
    if port:
        spec["ports"] = [{"name": "tfjob-port", "port": port}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
            "spec": spec}


def tfjob(job, namespace="default"):
    name = job["metadata"]["name"]
    replicas = job["spec"]["tfReplicaSpecs"]
    cluster = {TYPES[kind]: [f"{name}-{TYPES[kind]}-{i}.{namespace}.svc:{PORT}"
                             for i in range(spec.get("replicas", 1))]
               for kind, spec in replicas.items()}
    alone = sum(len(addresses) for addresses in cluster.values()) == 1
    for kind, spec in replicas.items():
        for i in range(spec.get("replicas", 1)):
            labels = {"training.kubeflow.org/job-name": name,
                      "training.kubeflow.org/replica-type": TYPES[kind],
                      "training.kubeflow.org/replica-index": str(i)}
            pod = copy.deepcopy(spec["template"])
            pod.update(apiVersion="v1", kind="Pod")
            pod.setdefault("metadata", {}).update(name=f"{name}-{TYPES[kind]}-{i}")
            pod["metadata"].setdefault("labels", {}).update(labels)
            policy = spec.get("restartPolicy", "Never")
            pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
            config = {"cluster": cluster, "task": {"type": TYPES[kind], "index": i},
                      "environment": "cloud"}
            for container in pod["spec"]["containers"]:
                if container["name"] == "tensorflow" and not alone:
                    container.setdefault("env", []).append(
                        {"name": "TF_CONFIG", "value": json.dumps(config, separators=(",", ":"))})
                    container.setdefault("ports", []).append(
                        {"name": "tfjob-port", "containerPort": PORT})
            yield pod
            yield headless(f"{name}-{TYPES[kind]}-{i}", labels, PORT)


def jobset(jobs):
    name = jobs["metadata"]["name"]
    network = jobs["spec"].get("network", {})
    subdomain = network.get("subdomain", name)
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    yield headless(subdomain, labels, unready=network.get("publishNotReadyAddresses", True))
    for replicated in jobs["spec"]["replicatedJobs"]:
        for i in range(replicated.get("replicas", 1)):
            job = copy.deepcopy(replicated["template"])
            own = dict(labels, **{"jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
                                  "jobset.sigs.k8s.io/job-index": str(i)})
            job.update(apiVersion="batch/v1", kind="Job")
            job.setdefault("metadata", {}).update(name=f"{name}-{replicated['name']}-{i}")
            job["metadata"].setdefault("labels", {}).update(own)
            job["spec"].setdefault("completionMode", "Indexed")
            template = job["spec"]["template"]
            template.setdefault("metadata", {}).setdefault("labels", {}).update(own)
            template["spec"].setdefault("restartPolicy", "OnFailure")
            template["spec"]["subdomain"] = subdomain
            yield job


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    made = []
    for document in documents:
        if document["kind"] == "TFJob":
            made.extend(tfjob(document))
        elif document["kind"] == "JobSet":
            made.extend(jobset(document))
        else:
            made.append(document)
    # Without anchors, which the same object in two places would become.
    yaml.Dumper.ignore_aliases = lambda *_: True
    yaml.dump_all(made, sys.stdout, sort_keys=False, width=200)


if __name__ == "__main__":
    main()
