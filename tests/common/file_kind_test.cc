#include "common/file_kind.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

using namespace std::string_literals;

TEST_CASE("a file's kind is told by its first bytes, with a hint about what to do") {
  const std::pair<std::string, const char*> kinds[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"},
      {"\x89HDF\r\n\x1a\n....", "HDF5"},
      {"PK\x03\x04....", "zip archive"},
      {"\x93NUMPY....", ".npy"},
      {"\x1f\x8b\x08.", "gzip"},
      {"\x04\x22\x4d\x18\x64\x40", "lz4"},
      {"\xff\x06\0\0sNaPpY"s, "snappy"},
      {"a.csv" + std::string(252, '\0') + "ustar\00000"s, "tar archive"},
      {"PAR1\x15.", "Parquet"},
      {"PAR1\x15.", "python3 -m paracord.convert"},
      {"ARROW1\0\0"s, "Feather (Arrow) file; `python3 -m paracord.convert"},
      {"FEA1\0\0\0\0"s, "Feather"},
      {"ORC\n\x06\0\0"s, "ORC file; `python3 -m paracord.convert"},
      {"Obj\x01\x04", "Avro"},
      {"\x80\x02}q\x01.", "pickle"},
      {"RIFF\x10\0\0\0WEBPVP8 "s, "WebP"},
      {"BM\x10\0\0\0\0\0\0\0\x36\0\0\0\x28"s, "BMP"},
      {"\n <!DOCTYPE html><html>", "HTML page"},
      {"", "empty"},
  };
  for (const auto& [bytes, kind] : kinds) {
    INFO(kind);
    CHECK(FileKind(bytes).find(kind) != std::string::npos);
  }
  for (const std::string& text :
       {"a,b\n1,2\n"s, "BMI,age,weight of all\n"s, "PAR1,PAR2\n"s, "ORC,x\n"s, "ORC\n1\n"s,
        "ARROW1,b\n"s, "FEA1,b\n"s, "\x80\0\0\0\0\0\0\0{}"s}) {
    CHECK(FileKind(text).empty());
  }
  CHECK(FileKindHint("%PDF-1.7") == "; it is a PDF file");
  CHECK(FileKindHint("text").empty());
}

}  // namespace
}  // namespace paracord
