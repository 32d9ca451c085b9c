// Sizes of tensors, as they are typed.
#pragma once

#include <fmt/format.h>

#include <string>

#include <CLI/CLI.hpp>

#include "sim/units.h"

namespace lockstep::wan {

inline CLI::Validator size_words() {
  return {[](std::string& text) -> std::string {
            const auto bytes = sim::bytes_of(text);
            if (!bytes || *bytes == 0) return fmt::format("'{}' is no size, such as 64MiB", text);
            text = fmt::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

}  // namespace lockstep::wan
