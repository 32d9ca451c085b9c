// Text that can be shown as it is: UTF-8 without control characters, so that nobody's name or reason breaks a line, a
// terminal or a JSON document.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

bool is_plain(std::string_view text);

// The same with a '?' in place of every byte that does not belong into plain text.
std::string plain(std::string_view text);

// The front of a text: at most `most` bytes, not ending inside a UTF-8 character.
std::string_view cut(std::string_view text, std::size_t most);

}  // namespace lockstep
