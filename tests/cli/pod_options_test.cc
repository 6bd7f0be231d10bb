// Tests what flags of `paracord render kubernetes` say of all pods, and what they refuse because an
// API server would.
#include "cli/pod_options.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/cli/rendered.h"

namespace paracord {
namespace {

size_t CountIn(const Rendered& rendered, const std::string& text) {
  return std::vector<std::string>(absl::StrSplit(rendered.out, text)).size() - 1;
}

PodOptions Annotated(std::vector<std::string> annotations) {
  PodOptions options;
  options.annotations = std::move(annotations);
  return options;
}

TEST_CASE("labels, annotations and the pull policy of render are on the pods of every role") {
  RenderExample example;
  for (const std::vector<std::string>& cluster :
       {std::vector<std::string>{"--export", "/job/m.safetensors"},
        {"--ps-kind", "statefulset", "--spot", "--tls"},
        {"--ps", "0"},
        {"--ps", "0", "--ps-kind", "statefulset", "--namespace", "ml"}}) {
    std::vector<std::string> args = {"--label",
                                     "team=ranking",
                                     "--label",
                                     "example.com/cost-centre=4711",
                                     "--annotation",
                                     "example.com/Owner=Ada: \"x=1\" # no comment",
                                     "--annotation",
                                     "on=",
                                     "--image-pull-policy",
                                     "Always",
                                     "--image",
                                     "r.io/p:2"};
    args.insert(args.end(), cluster.begin(), cluster.end());
    const Rendered all = example.Render(args);
    INFO(all.err << all.out);
    REQUIRE(all.code == 0);
    const size_t pods = CountIn(all, "\n  template:\n");
    CHECK(pods == (cluster[1] == "0" ? 1 : cluster[0] == "--export" ? 4 : 3));
    for (const std::string role : {"coordinator", "ps", "worker", "export"}) {
      const std::string metadata = absl::StrCat(
          "  template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: paracord\n"
          "        app.kubernetes.io/instance: counting-job\n        app.kubernetes.io/component: ",
          role, "\n");
      CHECK(CountIn(all, metadata) ==
            CountIn(all, absl::StrCat(metadata,
                                      "        \"team\": \"ranking\"\n"
                                      "        \"example.com/cost-centre\": \"4711\"\n"
                                      "      annotations:\n"
                                      "        \"example.com/Owner\": "
                                      "\"Ada: \\\"x=1\\\" # no comment\"\n"
                                      "        \"on\": \"\"\n"
                                      "    spec:\n")));
    }
    CHECK(CountIn(all, "\"team\": \"ranking\"\n") == pods);
    CHECK(CountIn(all,
                  "        image: r.io/p:2\n        imagePullPolicy: Always\n        command: ") ==
          pods);
    CHECK_FALSE(all.has("render: "));
  }
  const Rendered plain = example.Render({"--export", "/job/m.safetensors"});
  REQUIRE(plain.code == 0);
  CHECK_FALSE(plain.has("annotations"));
  CHECK_FALSE(plain.has("imagePullPolicy"));
}

TEST_CASE("an annotation of any UTF-8 is one line that YAML and JSON read as the same text") {
  const auto line = [](const std::string& value) {
    return PodValues(Annotated({"a=" + value})).at("annotations");
  };
  CHECK(line("two\nlines\t\"\\") == "annotations:\n  \"a\": \"two\\nlines\\t\\\"\\\\\"");
  CHECK(line("gr\u00fc\u00df \U0001F600") ==
        "annotations:\n  \"a\": \"gr\u00fc\u00df \U0001F600\"");
  // YAML takes no control characters and no byte order mark, and ends a line at U+2028.
  CHECK(line("\x01\x7f\u0085\u2028\ufeff.") ==
        "annotations:\n  \"a\": \"\\u0001\\u007f\\u0085\\u2028\\ufeff.\"");
}

TEST_CASE("labels, annotations and selectors that Kubernetes refuses are refused by the flag") {
  RenderExample example;
  const std::string longest(63, 'a'), longer(64, 'a'), domain(253, 'd');
  for (const std::string flag : {"--label", "--annotation", "--node-selector"}) {
    for (const std::string& key :
         {std::string(""), std::string("-a"), std::string("a."), std::string("a b"),
          std::string("a/b/c"), std::string("/a"), std::string("a/"), std::string("a_b/c"),
          std::string("\u00e9"), longer, domain + "d/a", std::string("a\n")}) {
      const Rendered refused = example.Render({flag, key + "=x"});
      INFO(flag << " " << key << ": " << refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out.empty());
      CHECK(absl::StrContains(refused.err, flag + ": "));
    }
    CHECK(absl::StrContains(example.Render({flag, "team"}).err, flag + ": team is no KEY=VALUE"));
    CHECK(absl::StrContains(example.Render({flag, "a=1", flag, "a=2"}).err,
                            flag + ": a is given twice"));
    for (const std::string& right :
         {longest + "=x", domain + "/" + longest + "=x", std::string("0.a_b-C=")}) {
      INFO(flag << " " << right);
      CHECK(example.Render({flag, right}).code == 0);
    }
  }
  for (const std::string flag : {"--label", "--node-selector"}) {
    for (const std::string& value :
         {std::string("a b"), std::string("-"), std::string("x."), std::string("a/b"),
          std::string("a=b"), longer, std::string("\u00e9")}) {
      const Rendered refused = example.Render({flag, "k=" + value});
      INFO(flag << " " << value << ": " << refused.err);
      CHECK(refused.code == 2);
      CHECK(absl::StrContains(refused.err,
                              absl::StrCat(flag, ": k: ", value, " is no value of Kubernetes")));
    }
    CHECK(example.Render({flag, "k=" + longest}).code == 0);
    CHECK(example.Render({flag, "Upper.example/k=x"}).code == 2);
  }
  CHECK(example.Render({"--annotation", "Upper.example/k=x"}).code == 0);
  CHECK(absl::StrContains(example.Render({"--annotation", "k=\xff"}).err,
                          "--annotation: k: the value is not UTF-8"));
}

TEST_CASE("the annotations of a pod have at most 256 KiB in all, as Kubernetes counts them") {
  const std::string half((128 << 10) - 1, 'x');
  CHECK(CheckPodOptions(Annotated({"a=" + half, "b=" + half})).ok());
  const absl::Status more = CheckPodOptions(Annotated({"a=" + half, "b=" + half, "c="}));
  CHECK(std::string(more.message()) ==
        "--annotation: all of them have 262145 bytes, and Kubernetes takes 262144 of an object");
}

TEST_CASE("a label by which pods are found cannot be replaced by --label") {
  RenderExample example;
  for (const std::string key :
       {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component",
        "job-name", "controller-uid", "pod-template-hash", "batch.kubernetes.io/job-name",
        "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}) {
    const Rendered refused = example.Render({"--label", key + "=mine"});
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, absl::StrCat("--label: ", key, " is the manifests' own")));
  }
  CHECK(example.Render({"--label", "app.kubernetes.io/part-of=shop"}).code == 0);
  CHECK(example.Render({"--annotation", "app.kubernetes.io/name=mine"}).code == 0);
}

TEST_CASE("tolerations and pull policies that Kubernetes refuses are refused by the flag") {
  RenderExample example;
  for (const std::string wrong : {"=gpu:NoSchedule", "a b:NoSchedule", "-a:NoExecute",
                                  "a=b c:NoSchedule", "a=b=c:NoSchedule", "a:b:NoSchedule", "a"}) {
    const Rendered refused = example.Render({"--toleration", wrong});
    INFO(wrong << ": " << refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, absl::StrCat("--toleration: ", wrong)));
  }
  CHECK(example.Render({"--toleration", "a/true=x:PreferNoSchedule"})
            .has("- {key: \"a/true\", operator: Equal, value: \"x\", effect: PreferNoSchedule}\n"));
  // Without a key all taints of the effect are tolerated.
  CHECK(example.Render({"--toleration", ":NoExecute"})
            .has("      - {operator: Exists, effect: NoExecute}\n"));
  for (const std::string wrong : {"always", "IfNotpresent", "Sometimes"}) {
    CHECK(absl::StrContains(
        example.Render({"--image-pull-policy", wrong}).err,
        absl::StrCat("--image-pull-policy: ", wrong, " is not Always, IfNotPresent or Never")));
  }
  for (const std::string right : {"Always", "IfNotPresent", "Never"}) {
    CHECK(example.Render({"--image-pull-policy", right})
              .has("        imagePullPolicy: " + right + "\n"));
  }
}

}  // namespace
}  // namespace paracord
