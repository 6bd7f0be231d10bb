#!/usr/bin/env python3
"""Prints what an operator makes of the pods in a manifest: pods.py FILE

A line for each pod, or for the pods of a Job: its name, its time to leave in seconds, its probes,
and the labels of the pods that it is kept apart from (without those of its own TFJob or JobSet).
"""
import sys

import operators
import yaml

OF_ALL = ("training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name")


def apart(spec):
    wishes = spec.get("affinity", {}).get("podAntiAffinity", {})
    found = []
    for wish in wishes.get("preferredDuringSchedulingIgnoredDuringExecution", []):
        term = wish["podAffinityTerm"]
        assert term["topologyKey"] == "kubernetes.io/hostname", term
        labels = term["labelSelector"]["matchLabels"]
        assert any(key in labels for key in OF_ALL), labels
        found += [f"{key.split('/')[1]}={value}" for key, value in sorted(labels.items())
                  if key not in OF_ALL] or ["all"]
    return ",".join(found) or "-"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    for document in documents:
        make = {"TFJob": operators.tfjob, "JobSet": operators.jobset}.get(document["kind"])
        for made in make(document) if make else ():
            if made["kind"] == "Service":
                continue
            spec = made["spec"] if made["kind"] == "Pod" else made["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            probes = [probe for probe in ("startup", "readiness", "liveness")
                      if f"{probe}Probe" in container]
            print(made["metadata"]["name"], spec.get("terminationGracePeriodSeconds"),
                  ",".join(probes), apart(spec))


if __name__ == "__main__":
    main()
