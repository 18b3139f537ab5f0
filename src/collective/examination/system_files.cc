#include "collective/examination/system_files.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace square::examination {

std::string read_text(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::vector<std::string> read_words(const std::string& path) {
  std::istringstream text(read_text(path));
  std::string line;
  std::getline(text, line);
  std::istringstream words(line);
  std::vector<std::string> found;
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

std::optional<double> to_number(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end == word.data()) return std::nullopt;
  return number;
}

std::optional<double> read_field(const std::string& path, const std::string& key) {
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    if (words >> first >> second && first == key) return to_number(second);
  }
  return std::nullopt;
}

std::vector<std::string> control_groups() {
  namespace fs = std::filesystem;
  const fs::path root = "/sys/fs/cgroup";
  std::istringstream text(read_text("/proc/self/cgroup"));
  std::vector<std::string> groups;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (fs::path path = root / line.substr(4); path != root; path = path.parent_path()) {
      groups.push_back(path.lexically_normal());
      if (path.parent_path() == path) break;
    }
  }
  groups.push_back(root);
  return groups;
}

}  // namespace square::examination
