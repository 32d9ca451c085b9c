// The file of a journal: whole lines only. When no further line fits, the file ends with a line that says so and takes
// nothing more, so that `lockstep sim audit` knows that the peer saw more than the file shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::python {

class JournalFile {
 public:
  // Opens the file to append. Raises OSError.
  explicit JournalFile(std::string path);
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;
  ~JournalFile();

  // Appends a line. When the file takes no more, returns its path and the reason, once.
  std::optional<std::string> append(std::string_view line);

 private:
  struct Written {
    std::size_t begin = 0;  // in the file
    std::size_t end = 0;
    int error = 0;  // of the system; 0: the whole text was written
  };
  Written write(std::string_view text);
  // Removes [begin, end) from the end of the file. False: another writer has appended more, or the file cannot be cut.
  [[nodiscard]] bool cut(std::size_t begin, std::size_t end) const;
  void end_with(std::string_view text);

  std::string path_;
  int file_ = -1;
  bool stopped_ = false;
  // The begins of the latest lines of this object, which lie one behind the other and end at `end_`.
  std::vector<std::size_t> begins_{};
  std::size_t end_ = 0;
};

// The last line of a journal that lacks what its peer saw later. `line`: any line of this peer.
std::string stopped_line(std::string_view line, std::string_view why);

}  // namespace lockstep::python
