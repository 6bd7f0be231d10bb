#include <zlib.h>

#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "data/array.h"
#include "data/memory_files.h"
#include "data/zip_file.h"
#include "tests/data/source_testing.h"
#include "tests/golden/golden.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

OpenedSource Open(Files& files, const json& options) {
  return OpenDataSource(files, {"npz", JsonOf(TextOf(options))});
}

std::string ReadGolden(const std::string& name) {
  PosixFiles files;
  return files.ReadWhole(GoldenPath(name)).value();
}

TEST_CASE("archives of numpy are read, stored and deflated, with several inputs") {
  PosixFiles files;
  for (const std::string name : {"arrays.npz", "arrays_packed.npz"}) {
    const auto source = Open(files, {{"file", GoldenPath(name)},
                                     {"features", {{"a", "x"}, {"b", "user"}}},
                                     {"labels", "y"},
                                     {"weights", {{"out", "user"}}},
                                     {"scale", 2}});
    INFO(source.status());
    REQUIRE(source.ok());
    Batch batch;
    REQUIRE((*source)->Read(std::vector<uint64_t>{3, 0}, batch).ok());
    REQUIRE(batch.inputs.size() == 2);
    CHECK(batch.inputs[0].name == "a");
    CHECK(batch.inputs[0].shape == std::vector<uint64_t>{3, 2});
    CHECK(batch.inputs[0].values ==
          Values{4.5, 4.75, 5, 5.25, 5.5, 5.75, 0, 0.25, 0.5, 0.75, 1, 1.25});
    CHECK(batch.inputs[1].values == Values{6000, 0});
    CHECK(batch.targets[0].values == Values{1, 1});
    CHECK(batch.weights[0].name == "out");
    CHECK(batch.weights[0].values == Values{3000, 0});
    CHECK((*source)->Where(3).find(GoldenPath(name) + "[\"y.npy\"] row 3") != std::string::npos);
  }
}

TEST_CASE("named arrays come in the order that the source says, which changes no fingerprint") {
  PosixFiles files;
  json options = {{"file", GoldenPath("arrays.npz")},
                  {"features", {{"a", "x"}, {"b", "user"}}},
                  {"labels", "y"}};
  const auto sorted = Open(files, options);
  options["order"] = {{"features", {"b", "a"}}};
  const auto source = Open(files, options);
  INFO(source.status());
  REQUIRE(source.ok());
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{3}, batch).ok());
  for (const Batch* each : {static_cast<const Batch*>(&batch), &(*source)->schema()}) {
    REQUIRE(each->inputs.size() == 2);
    CHECK(each->inputs[0].name == "b");
    CHECK(each->inputs[1].name == "a");
    CHECK(each->inputs[1].shape == std::vector<uint64_t>{3, 2});
  }
  CHECK(batch.inputs[0].values == Values{3000});
  CHECK((*source)->fingerprint() == (*sorted)->fingerprint());
}

// Returns an archive of stored members.
std::string Archive(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes, directory;
  const auto put = [](std::string& out, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  };
  for (const auto& [name, contents] : members) {
    const uint64_t at = bytes.size();
    std::string facts;  // of a member, in both of its headers
    put(facts, 20, 2);
    put(facts, 0, 8);  // no flags, stored, no time
    put(facts,
        crc32(0, reinterpret_cast<const Bytef*>(contents.data()),
              static_cast<uInt>(contents.size())),
        4);
    put(facts, contents.size(), 4);
    put(facts, contents.size(), 4);
    put(facts, name.size(), 2);
    put(facts, 0, 2);
    bytes += "PK\x03\x04" + facts + name + contents;
    directory += std::string("PK\x01\x02\x14\0", 6) + facts;
    put(directory, 0, 10);
    put(directory, at, 4);
    directory += name;
  }
  std::string end = "PK\x05\x06";
  put(end, 0, 4);
  put(end, members.size(), 2);
  put(end, members.size(), 2);
  put(end, directory.size(), 4);
  put(end, bytes.size(), 4);
  put(end, 0, 2);
  return bytes + directory + end;
}

TEST_CASE("of two arrays of one name in an archive the last counts, as for numpy") {
  const auto array = [](float value) {
    std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
    head.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n" +
           std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  MemoryFiles files;
  files.contents["/a.npz"] =
      Archive({{"x.npy", array(1)}, {"y.npy", array(2)}, {"x.npy", array(9)}});
  const auto source = Open(files, {{"file", "/a.npz"}, {"features", "x"}, {"labels", "y"}});
  INFO(source.status());
  REQUIRE(source.ok());
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{0}, batch).ok());
  CHECK(batch.inputs[0].values == Values{9});
  CHECK(batch.targets[0].values == Values{2});
}

TEST_CASE("several archives are one sequence") {
  MemoryFiles files;
  files.contents["/1"] = ReadGolden("arrays.npz");
  files.contents["/2"] = ReadGolden("arrays_packed.npz");
  const auto source = Open(files, {{"file", {"/1", "/2"}}, {"features", "x"}, {"labels", "y"}});
  REQUIRE(source.ok());
  CHECK((*source)->records() == 8);
}

TEST_CASE("headers tell that record counts differ before anything is unpacked") {
  std::string broken = ReadGolden("arrays_packed.npz");
  broken.replace(broken.find("PK\1\2") + 16, 2,
                 "\1\2");  // reading all of x would notice the wrong CRC
  MemoryFiles files;
  files.contents["/d"] = broken;
  const auto source = Open(files, {{"file", "/d"}, {"features", "x"}, {"labels", {"y", "y"}}});
  CHECK(source.status().message() == "/d: x has 4 records, but y has 8");
}

TEST_CASE("what an archive holds stays within the memory limit, which the error names") {
  MemoryFiles files;
  for (const std::string name : {"arrays.npz", "arrays_packed.npz"}) {
    files.contents["/" + name] = ReadGolden(name);
  }
  const auto open = [&](const std::string& file, uint64_t bytes) {
    const json options = {{"file", file}, {"features", "x"}, {"labels", "y"}};
    DataSpec spec{"npz", JsonOf(TextOf(options))};
    spec.memory = std::make_shared<MemoryShare>(bytes, 0);
    return OpenDataSource(files, spec);
  };
  CHECK(open("/arrays_packed.npz", 1 << 10).ok());
  CHECK(open("/arrays_packed.npz", 20).status().message() ==
        "/arrays_packed.npz[\"x.npy\"]: its 4 records take 96 B in memory, and --memory-limit "
        "leaves 20 B for data; raise the limit, or save the array unpacked (numpy.savez or "
        "numpy.save), so that it stays on disk");
  // An uncompressed array stays on disk.
  const Batch held = ReadAllRecords(open("/arrays.npz", 1 << 10));
  const Batch on_disk = ReadAllRecords(open("/arrays.npz", 20));
  CHECK(on_disk.inputs[0].values == held.inputs[0].values);
  CHECK(on_disk.targets[0].values == held.targets[0].values);
}

TEST_CASE("damaged archives are refused by name") {
  const std::string good = ReadGolden("arrays.npz"), packed = ReadGolden("arrays_packed.npz");
  const auto with = [](std::string bytes, size_t at, const std::string& piece) {
    return bytes.replace(at, piece.size(), piece);
  };
  const size_t end = good.size() - 22;
  const size_t entry = good.find("PK\1\2"), packed_entry = packed.find("PK\1\2");
  const size_t data = good.find("NUMPY");
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/d: is not a zip archive"},
      {"hello", "/d: is not a zip archive"},
      {good.substr(0, good.size() - 1), "/d: is a zip archive that is cut off"},
      {good.substr(0, good.size() / 2), "/d: is a zip archive that is cut off"},
      {with(good, end + 16, "\xf0\xff\xff\x7f"), "/d: the zip archive points beyond its end: to "},
      {with(good, end + 12, "\xf0\xff\xff\x7f"), "/d: has a zip directory of"},
      {with(good, end + 10, "\xff\xff"), "/d: entry 3 of the zip directory is damaged"},
      {with(good, entry, "PX"), "/d: entry 0 of the zip directory is damaged"},
      {with(good, entry + 28, "\xff\xff"), "/d: entry 0 of the zip directory is damaged"},
      {with(good, entry + 10, "\x0c"), "/d[\"x.npy\"]: packed by method 12"},
      {with(good, entry + 8, "\x01"), "/d[\"x.npy\"]: is encrypted"},
      {with(good, entry + 42, "\x01"), "/d[\"x.npy\"]: has no zip header"},
      {with(good, entry + 20, "\xf0\xff\xff\x7f"),
       "/d[\"x.npy\"]: the file ends inside it: it has 2147483632 bytes from "},
      {with(good, entry + 20, "\x70"), "/d[\"x.npy\"]"},
      {with(good, entry + 16, "\x01\x02"), "/d[\"x.npy\"]: its CRC is wrong"},
      {with(good, data + 200, "\x01\x02"), "/d[\"x.npy\"]: its CRC is wrong"},
      {with(packed, packed_entry + 16, "\x01\x02"), "/d[\"x.npy\"]: its CRC is wrong"},
      {with(packed, packed_entry + 20, "\x20"), "/d[\"x.npy\"]: the deflated data ends too early"},
      {with(packed, 60, "\xff\xff\xff\xff"), "/d[\"x.npy\"]"},
  };
  for (const auto& [bytes, message] : table) {
    MemoryFiles files;
    files.contents["/d"] = bytes;
    const auto source = Open(files, {{"file", "/d"}, {"features", "x"}, {"labels", "y"}});
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("no single wrong byte of an archive is more than an error") {
  for (const std::string name : {"arrays.npz", "arrays_packed.npz"}) {
    const std::string good = ReadGolden(name);
    for (size_t at = 0; at < good.size(); ++at) {
      MemoryFiles files;
      files.contents["/d"] = good;
      files.contents["/d"][at] = static_cast<char>(good[at] ^ 0x85);
      (void)Open(files, {{"file", "/d"}, {"features", "x"}, {"labels", "y"}});
    }
  }
}

TEST_CASE("wrong options of npz data are refused by key") {
  MemoryFiles files;
  files.contents["/d"] = ReadGolden("arrays.npz");
  const RefusedOptions table = {
      {json::object(), {"file: is missing", "features: is missing", "labels: is missing"}},
      {{{"file", "/d"}, {"features", {{"a", 3}}}, {"labels", json::object()}, {"lables", 1}},
       {"features.a: must be", "labels: is empty", "lables: unknown key"}},
      {{{"file", "/d"}, {"features", "xx"}, {"labels", "y"}},
       {"/d: holds no array \"xx\"; did you mean `x`?"}},
      {{{"file", "/d"}, {"features", "x"}, {"labels", {"y", "y"}}}, {"/d: x has ", ", but y has "}},
      {{{"file", "/d"}, {"features", {{"a", "x"}}}, {"labels", "y"}, {"order", 3}},
       {"data (npz).order: must be an object"}},
      {{{"file", "/d"},
        {"features", {{"a", "x"}, {"b", "x"}}},
        {"labels", "y"},
        {"order", {{"features", {"a", "c"}}, {"labels", {"y"}}}}},
       {"order.features: must list the names of `features`, each once, is [\"a\",\"c\"]",
        "order.labels: unknown key"}},
  };
  CheckRefused(table, [&](const json& options) { return Open(files, options); });
}

TEST_CASE("an array too large to be held gives the same records from its file") {
  PosixFiles files;
  const std::string path = GoldenPath("arrays.npz");
  const auto file = files.Open(path);
  REQUIRE(file.ok());
  const auto members = ReadZipDirectory(**file, path);
  REQUIRE(members.ok());
  for (const ZipMember& member : *members) {
    Array held, on_disk(/*held_max=*/3);
    for (Array* array : {&held, &on_disk}) {
      for (int twice = 0; twice < 2; ++twice) {
        const auto stream = OpenZipMember(files, path, member);
        REQUIRE(stream.ok());
        const auto header = ReadNpyHeader(**stream);
        REQUIRE(header.ok());
        REQUIRE(array->Append(*header, **stream).ok());
      }
    }
    CHECK(held.fingerprint() == on_disk.fingerprint());
    Values a(held.record_size()), b(held.record_size());
    for (uint64_t record = 0; record < held.records(); ++record) {
      std::vector<ExactInteger> exact;
      REQUIRE(held.Read(record, 0.5f, a.data(), 0, exact).ok());
      REQUIRE(on_disk.Read(record, 0.5f, b.data(), 0, exact).ok());
      CHECK(a == b);
    }
  }
}

}  // namespace
}  // namespace paracord
