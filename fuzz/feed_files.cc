// Stands in for libFuzzer, so that every compiler runs the corpora as a test: gives a target each file of the folders
// (or files) named on the command line; with --changed N, then N inputs more, which are files of these changed at
// random, from one seed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "core/base/rng.h"
#include "fuzz/door.h"

namespace {

using Input = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the same inputs on every file system
  return files;
}

Input read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Some bytes of one input are others, are missing, or are those of another input.
Input changed(const std::vector<Input>& inputs, std::uint64_t n) {
  std::uint64_t drawn = 0;
  const auto below = [&](std::size_t bound) { return lockstep::draw(1, 2, n, drawn++) % bound; };
  Input input = inputs[below(inputs.size())];
  const Input& other = inputs[below(inputs.size())];
  for (std::size_t changes = 1 + below(8); changes > 0; --changes) {
    const std::size_t at = below(input.size() + 1);
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = below(std::min<std::size_t>(input.size() - at, 32) + 1);
    switch (below(4)) {
      case 0: input.insert(place, static_cast<std::uint8_t>(below(256))); break;
      case 1: input.erase(place, place + static_cast<std::ptrdiff_t>(length)); break;
      case 2:
        for (std::size_t i = at; i < at + length; ++i) input[i] = static_cast<std::uint8_t>(below(256));
        break;
      case 3: input.insert(place, other.begin(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1)));
    }
    if (input.size() > 65'536) input.resize(65'536);
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t changes = 0;
  std::vector<Input> inputs;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--changed" && i + 1 < argc) {
      changes = std::strtoull(argv[++i], nullptr, 10);
      continue;
    }
    for (const fs::path& path : files_of(argv[i])) {
      std::printf("%s\n", path.c_str());  // the last line names what broke it
      inputs.push_back(read(path));
      LLVMFuzzerTestOneInput(inputs.back().data(), inputs.back().size());
    }
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "usage: %s [--changed N] folder-or-file ...   (there was no file)\n", argv[0]);
    return 1;
  }
  for (std::uint64_t n = 0; n < changes; ++n) {
    const Input input = changed(inputs, n);
    std::printf("changed %llu\n", static_cast<unsigned long long>(n));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
