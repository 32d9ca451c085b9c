// Any bytes as a token file: they are refused in a short plain text, or they give tokens. Those are written and read
// again as the same tokens, and every operation on the list leaves a list that can be read.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/run_token.h"
#include "fuzz/door.h"
#include "transport/token_file.h"

namespace transport = lockstep::transport;

namespace {

constexpr std::size_t kLongestError = 400;
constexpr std::int64_t kToday = 1'798'675'200;

void look_at_error(const lockstep::Error& error) {
  LOCKSTEP_ASSERT(!error.text.empty() && error.text.size() <= kLongestError && lockstep::is_plain(error.text));
}

void look_at_file(const transport::TokenFile& file) {
  const auto again = transport::parse_token_file(transport::text_of(file));
  LOCKSTEP_ASSERT(again.ok() && *again == file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto file = transport::parse_token_file(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!file) {
    look_at_error(file.error());
    return 0;
  }
  look_at_file(*file);
  LOCKSTEP_ASSERT(file->tokens.size() <= transport::kMaxTokens);
  for (std::size_t i = 0; i < file->tokens.size() && i < 8; ++i) {
    const transport::TokenRecord token = file->tokens[i];
    (void)transport::state_of(token, kToday);
    LOCKSTEP_ASSERT(token.id.value != 0 && lockstep::is_plain(token.name));
    const auto found = transport::find_token(*file, lockstep::wire::name_of(token.id));
    LOCKSTEP_ASSERT(found.ok() && *found == token.id);
    if (const auto named = transport::find_token(*file, token.name); !named) look_at_error(named.error());
    if (!transport::validate_token_addresses(file->addresses)) {
      const std::string text = lockstep::wire::text_of(transport::run_token(*file, token, file->addresses));
      LOCKSTEP_ASSERT(lockstep::wire::parse_run_token(text).ok());
    }
    LOCKSTEP_ASSERT(transport::add_token(*file, token).has_value());  // its id is there already
    transport::use_token(*file, token.id);
    LOCKSTEP_ASSERT(transport::revoke_token(*file, lockstep::wire::name_of(token.id)).ok());
  }
  look_at_file(*file);
  return 0;
}
