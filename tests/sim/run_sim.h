// `lockstep sim`, as a shell sees it, in this process.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cli/cli.h"

namespace lockstep::sim {

struct Ran {
  int code = 0;
  std::string out;
  std::string errors;
};

inline Ran run_sim(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep sim");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = sim_main(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

// Writes a file with this text for this test alone. Returns its path.
inline std::string file_with(const std::string& text, const std::string& name = "file.toml") {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder =
      std::filesystem::path(testing::TempDir()) / (std::string(test->test_suite_name()) + "_" + test->name());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

inline std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace lockstep::sim
