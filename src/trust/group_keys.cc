#include "trust/group_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "trust/aes_gcm.h"
#include "trust/key_share.h"

namespace square::trust {
namespace {

constexpr std::string_view kWrapLabel = "square group key 1";
constexpr std::size_t kWrapSaltBytes = 32;
constexpr std::size_t kWrappedBytes = kGroupKeyBytes + kSealTagBytes;

void add_text(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < sizeof(std::uint32_t); ++i) out += static_cast<char>(text.size() >> (8 * i));
  out += text;
}

// Whom the key is for, who has made it, and which of them it is wrapped for: what the wrapping key is bound
// to.
std::string description_of(const KeyHolders& holders, std::string_view maker, std::string_view node,
                           std::string_view salt) {
  std::string text;
  for (const std::string_view part :
       {kWrapLabel, salt, std::string_view(holders.group), std::string_view(holders.tenant), maker, node})
    add_text(text, part);
  for (const std::string& one : holders.nodes) add_text(text, one);
  return text;
}

std::string hmac(std::string_view key, std::string_view text) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  const auto* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(text), text.size(), raw(out), &size);
  SQUARE_CHECK(made != nullptr, "OpenSSL has no HMAC-SHA256");
  out.resize(size);
  return out;
}

// HKDF (RFC 5869) with an output as long as its hash. Every wrapping key serves once: salts are random.
std::string wrapping_key(std::string_view secret, std::string_view salt, const std::string& description) {
  return hmac(hmac(salt, secret), description + '\x01');
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  SQUARE_CHECK(RAND_bytes(raw(bytes), static_cast<int>(count)) == 1, "the system has no random numbers");
  return bytes;
}

constexpr GcmNonce kOnlyNonce{};

GcmKey as_key(const std::string& bytes) {
  return GcmKey(reinterpret_cast<const std::byte*>(bytes.data()), kGcmKeyBytes);
}

std::string seal_key(std::string_view key, const std::string& wrapping) {
  std::string out(kWrappedBytes, '\0');
  auto* const to = reinterpret_cast<std::byte*>(out.data());
  GcmSeal seal(as_key(wrapping), kOnlyNonce);
  seal.add(std::as_bytes(std::span(key)), to);
  seal.finish(to + key.size());
  return out;
}

GroupKeyPtr open_key(std::string_view wrapped, const std::string& wrapping) {
  GroupKey::Bytes bytes;
  const auto from = std::as_bytes(std::span(wrapped));
  GcmOpening opening(as_key(wrapping), kOnlyNonce);
  opening.add(from.first(kGroupKeyBytes), bytes.data());
  GroupKeyPtr key =
      opening.finish(from.data() + kGroupKeyBytes) ? std::make_shared<const GroupKey>(bytes) : nullptr;
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

// The length of the maker's share in two bytes, the share, the salt, and a key for each holder.
struct WrappedParts {
  std::string_view share;
  std::string_view salt;
  std::string_view keys;
};

std::optional<WrappedParts> wrapped_parts_of(std::string_view wrapped, std::size_t holders) {
  if (wrapped.size() < 2) return std::nullopt;
  const std::size_t share =
      static_cast<unsigned char>(wrapped[0]) | (std::size_t{static_cast<unsigned char>(wrapped[1])} << 8U);
  const std::string_view rest = wrapped.substr(2);
  if (share > kMaxKeyShareBytes || rest.size() != share + kWrapSaltBytes + holders * kWrappedBytes)
    return std::nullopt;
  return WrappedParts{rest.substr(0, share), rest.substr(share, kWrapSaltBytes),
                      rest.substr(share + kWrapSaltBytes)};
}

}  // namespace

std::size_t max_wrapped_bytes(std::size_t holders) {
  return 2 + kMaxKeyShareBytes + kWrapSaltBytes + holders * kWrappedBytes;
}

GroupKeys::GroupKeys(std::shared_ptr<Identity> identity, KeyPtr own)
    : identity_(std::move(identity)), own_(std::move(own)) {}

Result<std::shared_ptr<GroupKeys>> GroupKeys::create(std::shared_ptr<Identity> identity) {
  // Processes of servers are nodes, too.
  const auto name = identity ? identity->name() : std::nullopt;
  if (!name || (name->role != Role::kNode && name->role != Role::kServer))
    return invalid_argument("keys of groups are for nodes with certificates of an authority");
  KeyPtr own = make_exchange_key();
  if (!own) return internal_error(fmt::format("cannot make a key: {}", openssl_error()));
  return std::shared_ptr<GroupKeys>(new GroupKeys(std::move(identity), std::move(own)));
}

Result<std::string> GroupKeys::share() {
  const auto signer = read_signer(*identity_);
  const std::lock_guard lock(mutex_);
  if (!signer.is_ok()) {
    if (!share_.empty()) return share_;  // as it was: the file may be replaced just now
    return signer.status();
  }
  const std::string fingerprint = fingerprint_of(*signer->certificate);
  if (fingerprint == signed_for_) return share_;
  SQUARE_ASSIGN_OR_RETURN(share_, sign_share(*own_, *signer));
  signed_for_ = fingerprint;
  return share_;
}

Result<std::string> GroupKeys::wrap(const KeyHolders& holders, const std::vector<std::string>& shares) {
  SQUARE_CHECK(shares.size() == holders.nodes.size(), "a share for each holder");
  SQUARE_ASSIGN_OR_RETURN(const std::string own_share, share());
  SQUARE_ASSIGN_OR_RETURN(const std::string authority, authorities_of(*identity_));
  const std::string salt = random_bytes(kWrapSaltBytes);
  std::string key = random_bytes(kGroupKeyBytes);
  std::string wrapped;
  wrapped += static_cast<char>(own_share.size() & 0xffU);
  wrapped += static_cast<char>(own_share.size() >> 8U);
  wrapped += own_share + salt;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::string& holder = holders.nodes[i];
    const auto share = check_share(shares[i], *identity_, authority);
    if (!share.is_ok()) return share.status().with_context(fmt::format("the key of node \"{}\"", holder));
    if (share->node != holder) {
      return permission_denied(
          fmt::format("the controller has given a key of node \"{}\" for node \"{}\"", share->node, holder));
    }
    SQUARE_ASSIGN_OR_RETURN(const std::string secret, agree(*own_, *share->key));
    wrapped += seal_key(key, wrapping_key(secret, salt, description_of(holders, node(), holder, salt)));
  }
  OPENSSL_cleanse(key.data(), key.size());
  return wrapped;
}

Result<GroupKeyPtr> GroupKeys::unwrap(const KeyHolders& holders, const std::string& label,
                                      const std::string& wrapped) {
  const auto parts = wrapped_parts_of(wrapped, holders.nodes.size());
  if (!parts)
    return invalid_argument(
        fmt::format("group \"{}\" has keys that were not made for its members", holders.group));
  const std::string salt(parts->salt);
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(salt);
    if (known != known_.end() && known->second.label == label) return known->second.key;
  }
  const auto is_holder = [&](const std::string& name) { return std::ranges::find(holders.nodes, name); };
  const auto own = is_holder(node());
  SQUARE_ASSIGN_OR_RETURN(const std::string authority, authorities_of(*identity_));
  const auto maker = check_share(parts->share, *identity_, authority);
  if (!maker.is_ok())
    return maker.status().with_context(fmt::format("the maker of group \"{}\"'s key", holders.group));
  if (own == holders.nodes.end() || is_holder(maker->node) == holders.nodes.end()) {
    return permission_denied(
        fmt::format("the key of group \"{}\" was made by node \"{}\": it, or this node, has no "
                    "member in the group",
                    holders.group, maker->node));
  }
  const auto place = static_cast<std::size_t>(own - holders.nodes.begin());
  SQUARE_ASSIGN_OR_RETURN(const std::string secret, agree(*own_, *maker->key));
  const GroupKeyPtr key =
      open_key(parts->keys.substr(place * kWrappedBytes, kWrappedBytes),
               wrapping_key(secret, parts->salt, description_of(holders, maker->node, node(), parts->salt)));
  if (!key) {
    return failed_precondition(fmt::format(
        "the key of group \"{}\", by node \"{}\", was made for another process of node \"{}\", or for "
        "other members; make a new group",
        holders.group, maker->node, node()));
  }
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = known_.try_emplace(salt, Known{label, key});
  if (known->second.label != label) {
    return failed_precondition(fmt::format("the controller has given the key of group \"{}\" for \"{}\", too",
                                           known->second.label, label));
  }
  if (is_new) salts_.push_back(salt);
  if (salts_.size() > kMaxRememberedKeys) {
    known_.erase(salts_.front());
    salts_.pop_front();
  }
  return key;
}

}  // namespace square::trust
