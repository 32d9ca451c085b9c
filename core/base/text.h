// Plain text: UTF-8 without control characters and without invisible characters. A name or a reason that came from
// outside must not break a line, a terminal or a JSON document; nor change the order of the text around it, nor look
// like another name. Invisible are the characters that Unicode calls default ignorable, such as marks of direction and
// spaces of width zero; separators of lines and paragraphs; and marks of annotations.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

bool is_plain(std::string_view text);

// Replaces every byte that is not part of plain text by '?'.
std::string plain(std::string_view text);

// The front of a text: at most `most` bytes, never ending inside a UTF-8 character.
std::string_view cut(std::string_view text, std::size_t most);

}  // namespace lockstep
