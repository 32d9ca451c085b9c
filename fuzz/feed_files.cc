// Stands in for libFuzzer: gives a target each file of the folders (or files) named on the command line, so that every
// compiler runs the corpora as a test.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/door.h"

namespace {

std::size_t fed = 0;

void feed(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s\n", path.c_str());  // the last line names the file that broke it
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  ++fed;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      feed(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) feed(entry.path());
    }
  }
  if (fed == 0) std::fprintf(stderr, "usage: %s folder-or-file ...   (there was no file)\n", argv[0]);
  return fed == 0 ? 1 : 0;
}
