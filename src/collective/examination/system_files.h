// Numbers and words in the files of /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace square::examination {

// Empty where it cannot be read.
std::string read_text(const std::string& path);
// The words of a file's first line.
std::vector<std::string> read_words(const std::string& path);
std::optional<double> to_number(const std::string& word);
// Of a line that begins with `key`, the next word: "MemAvailable:", "throttled_usec".
std::optional<double> read_field(const std::string& path, const std::string& key);
// The control group of this process and those above it (version 2), the innermost first.
std::vector<std::string> control_groups();

}  // namespace square::examination
