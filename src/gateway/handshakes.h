// Connections whose process is not known: its hello has not come, or was refused and it is told why.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "gateway/group_table.h"

namespace square::gateway {

// Connections whose process is not known, of all users.
inline constexpr std::size_t kMaxHandshakes = 256;

class Handshakes {
 public:
  void add(std::uint32_t user, AttachmentId id) {
    of_user_[user].insert(id);
    ++count_;
  }

  void remove(std::uint32_t user, AttachmentId id) {
    const auto found = of_user_.find(user);
    if (found == of_user_.end() || found->second.erase(id) == 0) return;
    --count_;
    if (found->second.empty()) of_user_.erase(found);
  }

  // Where there are too many: the oldest of the user with the most, which counts no more. So one user's
  // connections leave room for another's.
  std::optional<AttachmentId> take_one_too_many() {
    if (count_ <= kMaxHandshakes) return std::nullopt;
    const auto most =
        std::ranges::max_element(of_user_, {}, [](const auto& entry) { return entry.second.size(); });
    const AttachmentId oldest = *most->second.begin();
    remove(most->first, oldest);
    return oldest;
  }

 private:
  std::map<std::uint32_t, std::set<AttachmentId>> of_user_;
  std::size_t count_ = 0;
};

}  // namespace square::gateway
