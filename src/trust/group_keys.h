// Keys of groups: made by a member for the members, over their certificates, so that who carries them (the
// controller) has no part in them.
//
// Every process of a node draws a key of X25519 and signs it with its certificate: its share. The first
// member that registers a group draws the group's key and wraps it for each node of the group, by what only
// the two of them can compute of their shares.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "square/identity.h"
#include "trust/block_seal.h"
#include "trust/openssl.h"

namespace square::trust {

// Checked before anything is kept.
inline constexpr std::size_t kMaxKeyShareBytes = std::size_t{16} << 10U;
// Of groups; one more takes the place of the oldest.
inline constexpr std::size_t kMaxRememberedKeys = 65'536;

// A key that is wrapped for so many takes no more.
std::size_t max_wrapped_bytes(std::size_t holders);

// Whom a key is for.
struct KeyHolders {
  std::string group;
  std::string tenant;
  std::vector<std::string> nodes;  // without repetitions, the same order at all of them
};

// One process's. Thread-safe; reads files.
class GroupKeys {
 public:
  // For identities that an authority has signed: by fingerprints all nodes are one user's, and there is
  // nobody to keep a secret from. Errors: INVALID_ARGUMENT for another, INTERNAL.
  static Result<std::shared_ptr<GroupKeys>> create(std::shared_ptr<Identity> identity);

  // Signed with the certificate that the node has now: another one once that was renewed. Errors: those of
  // reading the identity's files, INTERNAL.
  Result<std::string> share();

  // A key that is drawn for the holders, wrapped: not secret. `shares` are theirs, in their order. Errors:
  // UNAUTHENTICATED and PERMISSION_DENIED for a share that is not its node's, naming it; those of reading the
  // authority's file.
  Result<std::string> wrap(const KeyHolders& holders, const std::vector<std::string>& shares);
  // The key that one of the holders has wrapped so, of the group with this label. One that was unwrapped
  // before stays, though the certificate of who has made it may have ended since. Errors: as wrap();
  // PERMISSION_DENIED where this node, or who has wrapped it, is none of them; FAILED_PRECONDITION where it
  // was wrapped for another process of this node, or for another group.
  Result<GroupKeyPtr> unwrap(const KeyHolders& holders, const std::string& label, const std::string& wrapped);

 private:
  GroupKeys(std::shared_ptr<Identity> identity, KeyPtr own);
  [[nodiscard]] const std::string& node() const { return identity_->name()->name; }

  const std::shared_ptr<Identity> identity_;
  const KeyPtr own_;  // X25519
  std::mutex mutex_;
  std::string signed_for_;  // the fingerprint of the certificate that share_ is signed with
  std::string share_;
  struct Known {
    std::string label;  // none is used for two groups
    GroupKeyPtr key;    // whoever has made it had the right to then
  };
  std::map<std::string, Known> known_;  // by the salt
  std::deque<std::string> salts_;       // the keys of known_, oldest first
};

}  // namespace square::trust
