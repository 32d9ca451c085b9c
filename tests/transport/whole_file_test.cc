#include "transport/whole_file.h"

#include <gtest/gtest.h>

#include <span>

#include "tests/transport/temporary_folder.h"

namespace lockstep::transport {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(WholeFile, IsCreatedOnceForItsOwnerOnly) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  EXPECT_TRUE(*create_file(path, bytes("one")));
  EXPECT_FALSE(*create_file(path, bytes("two")));
  EXPECT_EQ(contents_of(path), "one");
  EXPECT_EQ(mode_of(path), kOwnerOnly);
  EXPECT_EQ(folder.files(), 1);
}

TEST(WholeFile, IsReplacedForItsOwnerOnly) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  std::ofstream(path) << "old, and longer";
  EXPECT_EQ(replace_file(path, bytes("new")), std::nullopt);
  EXPECT_EQ(contents_of(path), "new");
  EXPECT_EQ(mode_of(path), kOwnerOnly);
  EXPECT_EQ(folder.files(), 1);
}

TEST(WholeFile, AFailureNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing/file";
  const auto failed = replace_file(missing, bytes("new"));
  ASSERT_TRUE(failed);
  EXPECT_TRUE(failed->starts_with(missing)) << *failed;
  EXPECT_TRUE(failed->ends_with("No such file or directory")) << *failed;
  EXPECT_EQ(create_file(missing, bytes("new")).ok(), false);

  const std::string subfolder = folder / "subfolder";
  fs::create_directories(subfolder + "/full");
  EXPECT_TRUE(replace_file(subfolder, bytes("new")));
  EXPECT_EQ(folder.files(), 1);
}

}  // namespace
}  // namespace lockstep::transport
