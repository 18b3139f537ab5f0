#include "trust/block_audit.h"

#include <algorithm>

#include "base/check.h"
#include "trust/openssl.h"

namespace square::trust {
namespace {

using DigestContextPtr = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;

}  // namespace

BlockSight::Digest digest_of(std::initializer_list<std::uint64_t> numbers, const Buffer& payload) {
  const DigestContextPtr context(EVP_MD_CTX_new());
  bool is_done = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::uint64_t number : numbers) {
    std::array<unsigned char, sizeof number> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(number >> (8 * i));
    is_done = is_done && EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
  }
  for (const Buffer::Slice& slice : payload.slices())
    is_done = is_done && EVP_DigestUpdate(context.get(), slice.data, slice.size_bytes) == 1;
  BlockSight::Digest digest;
  is_done = is_done && EVP_DigestFinal_ex(context.get(), raw(digest.data()), nullptr) == 1;
  SQUARE_CHECK(is_done, "OpenSSL has no SHA-256");
  return digest;
}

std::vector<BlockDifference> BlockAudit::note(const std::string& node, const BlockSight& sight) {
  const auto [entry, is_new] = blocks_.try_emplace(sight.name);
  if (is_new) told_by_[node].push_back(sight.name);
  Sights& sights = entry->second;
  std::vector<BlockDifference> found;
  const bool is_taken =
      sights.size() < kMaxSightsOfBlock && sights.try_emplace(node, Sight{sight.from, sight.digest}).second;
  if (is_taken) {
    const auto parent = sights.find(sight.from);
    if (!sight.from.empty() && parent != sights.end() && parent->second.digest != sight.digest)
      found.push_back({sight.from, node, sight.name.session});
    for (const auto& [other, seen] : sights) {
      if (seen.from == node && seen.digest != sight.digest)
        found.push_back({node, other, sight.name.session});
    }
  }
  if (blocks_.size() > kMaxAuditedBlocks) forget_one();
  return found;
}

void BlockAudit::forget_one() {
  const auto most =
      std::ranges::max_element(told_by_, {}, [](const auto& entry) { return entry.second.size(); });
  blocks_.erase(most->second.front());
  most->second.pop_front();
  if (most->second.empty()) told_by_.erase(most);
}

}  // namespace square::trust
