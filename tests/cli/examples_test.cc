// Checks that `paracord validate` accepts the jobs of examples/, with a few rows in place of the
// data, which show the formats.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/commands.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;
using Contents = std::map<std::string, std::string>;  // file name -> contents

constexpr const char* kDebianImages = "/usr/share/datasets/fashion-mnist/";
constexpr const char* kCharacters =
    "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string Repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

Contents Adult() {
  const std::string row =
      "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
      "Male, 2174, 0, 40, United-States, <=50K\n"
      "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, "
      "0, 0, 60, South, >50K\n\n";
  return {{"adult.data", row},
          {"adult.test", "|1x3 Cross validator\n" +
                             absl::StrReplaceAll(row, {{"<=50K", "<=50K."}, {" >50K", " >50K."}})}};
}

Contents Movielens() {
  Contents files = {{"ratings.csv", "userId,movieId,rating,timestamp\n"},
                    {"users.txt", "1\n2\n3\n4\n"},
                    {"films.txt", "31\n1029\n163949\n"}};
  for (const int user : {1, 2, 3, 4}) {
    for (const int film : {31, 1029, 163949}) {
      absl::StrAppend(&files["ratings.csv"], user, ",", film, ",2.5,1260759144\n");
    }
  }
  return files;
}

Contents Flights() {
  const std::string rows =
      "hour,weekday,origin,destination,route,miles,late\n"
      "0,0,LAS,PHL,LAS-PHL,21,1\n"
      "13,4,ATL,SAV,ATL-SAV,2,0\n";
  return {{"train.csv", rows}, {"test.csv", rows}};
}

Contents FashionMnist() {
  using namespace std::string_literals;
  const std::string images =
      "\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c"s + Repeated("ab", size_t{28} * 28);
  const std::string labels = "\0\0\x08\x01\0\0\0\x02\x03\x09"s;
  return {{"train-images-idx3-ubyte.gz", images},
          {"train-labels-idx1-ubyte.gz", labels},
          {"t10k-images-idx3-ubyte.gz", images},
          {"t10k-labels-idx1-ubyte.gz", labels}};
}

// Returns an array of bytes as numpy.save writes it.
std::string BytesNpy(const std::string& shape, size_t size) {
  std::string header =
      absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(118 - 1, ' ');
  std::string text("\x93NUMPY\x01\0\x76\0", 10);
  absl::StrAppend(&text, header, "\n");
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(i % 10);
  return text;
}

Contents Cifar10() {
  const std::string images = BytesNpy("(4, 32, 32, 3)", size_t{4} * 32 * 32 * 3);
  const std::string labels = BytesNpy("(4,)", 4);
  return {{"train_images.npy", images},
          {"train_labels.npy", labels},
          {"test_images.npy", images},
          {"test_labels.npy", labels}};
}

Contents Criteo() {
  std::string rows;
  for (const char label : {'0', '1'}) {
    absl::StrAppend(&rows, std::string(1, label), Repeated("\t3", 12), "\t",
                    Repeated("\t68fd1e64", 25), "\t\n");
  }
  return {{"train.tsv", rows}, {"test.tsv", rows}};
}

Contents Recommender() {
  std::string rows = "user,item,clicked\n";
  for (const int user : {1, 2, 3, 4, 5}) absl::StrAppend(&rows, "u", user, ",i1,", user % 2, "\n");
  return {{"clicks.csv", rows}};
}

// Returns a few rows of data for each example.
std::map<std::string, Contents> StandIns() {
  return {
      {"adult", Adult()},
      {"cifar10", Cifar10()},
      {"criteo", Criteo()},
      {"fashion-mnist", FashionMnist()},
      {"flights", Flights()},
      {"movielens", Movielens()},
      {"recommender", Recommender()},
      {"sentiment", {{"reviews.tsv", Repeated("bad\ttoo long , by far .\ngood\tit 's fun\n", 10)}}},
      {"shakespeare", {{"tinyshakespeare.txt", Repeated(kCharacters, 20)}}},
      {"transformer", {{"tinyshakespeare.txt", Repeated(kCharacters, 20)}}},
      {"word2vec", {{"text.txt", Repeated("the cat and the dog\n", 3000)}}},
  };
}

// Copies the job files and models of an example, and puts a few rows in place of its data.
void CopyExample(const fs::path& from, const Contents& data, const fs::path& to) {
  for (const auto& [file, text] : data) Write(to / "data" / file, text);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const fs::path file = fs::relative(entry.path(), from);
    const bool copied = file.extension() == ".json" || file == "train.py";
    if (!copied || *file.begin() == "data") continue;
    Write(to / file, absl::StrReplaceAll(Read(entry.path()),
                                         {{kDebianImages, "data/"}, {"../criteo/data/", "data/"}}));
  }
}

bool HasPackage(const std::string& name) {
  setenv("PYTHONPATH", PARACORD_SOURCE_DIR "/python", 1);
  return std::system(("python3 -c 'import " + name + "' 2>/dev/null").c_str()) == 0;
}

TEST_CASE("validate finds nothing wrong with the jobs of the examples") {
  const std::map<std::string, Contents> data = StandIns();
  for (const auto& example : fs::directory_iterator(fs::path(PARACORD_SOURCE_DIR) / "examples")) {
    const std::string name = example.path().filename().string();
    INFO(name);
    CHECK(fs::exists(example.path() / "README.md"));
    // An example PACKAGE-DATA is a program on data of an existing example. It needs a python3 with
    // the package.
    const size_t dash = fs::exists(example.path() / "train.py") ? name.find('-') + 1 : 0;
    REQUIRE(data.contains(name.substr(dash)));
    const TestDirectory dir;
    CopyExample(example.path(), data.at(name.substr(dash)), dir.path());
    if (dash != 0 && !HasPackage(name.substr(0, dash - 1))) {
      WARN(name << " is not validated: python3 has no " << name.substr(0, dash - 1));
      continue;
    }
    size_t jobs = 0;
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      const std::string file = entry.path().filename().string();
      if (entry.path().extension() != ".json" || file == "model.json") continue;
      std::ostringstream out, err;
      const std::vector<std::string> args = {entry.path().string(), "--allow-programs"};
      CHECK(RunValidate(args, out, err) == 0);
      CHECK(err.str() == "");
      ++jobs;
    }
    CHECK(jobs > 0);
  }
}

}  // namespace
}  // namespace paracord
