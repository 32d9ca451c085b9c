// For tests that need a WAN in a box. Skipped where namespaces or TUN devices are not allowed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/wan/box.h"

namespace lockstep::wan {

class WanBox : public ::testing::Test {
 protected:
  // Makes the box and starts it. False: the test is over, as there can be none here, or as it has failed.
  bool make(const std::string& toml) {
    try_to_make(toml);
    return box != nullptr;
  }

  std::unique_ptr<Box> box;

 private:
  void try_to_make(const std::string& toml) {
    auto made = Box::make(*topology_from_text(toml));
    if (!made && made.error().status == Status::kRefused) GTEST_SKIP() << made.error().text;
    ASSERT_TRUE(made) << made.error().text;
    box = std::move(*made);
    box->start();
  }
};

}  // namespace lockstep::wan
