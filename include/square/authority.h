// An operator's own authority: the key that signs the certificates of an overlay's processes.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "square/grant.h"
#include "square/identity.h"
#include "square/status.h"

namespace square {

// Thread-compatible. Keys are of the curve P-256, signatures ECDSA with SHA-256.
class Authority {
 public:
  static constexpr const char* kKeyFile = "authority.key";
  // Of certificates that it signs: short, as whoever gets hold of a key has it for so long at the most.
  static constexpr std::chrono::hours kUsualLife{24 * 7};
  static constexpr std::chrono::hours kMaxLife{24 * 398};
  static constexpr std::chrono::hours kAuthorityLife{24 * 3650};

  // Makes a key and its certificate in `folder`, which is made where it is not there: authority.key, for the
  // owner's eyes only, and authority.pem. Errors: INVALID_ARGUMENT for a domain that cannot be,
  // ALREADY_EXISTS where the folder holds an authority, UNAVAILABLE naming the file that cannot be written.
  static Result<Authority> create(const std::string& folder, const std::string& domain);
  // Errors: NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION for an authority that has expired.
  static Result<Authority> open(const std::string& folder);

  // Writes a new key and its certificate for `role`/`name` into `target`: identity.pem and authority.pem,
  // each put in the place of the old one at once, so that a running process finds either. Errors:
  // INVALID_ARGUMENT for a name that cannot be or a life out of bounds, UNAVAILABLE naming the file that
  // cannot be written.
  [[nodiscard]] Status issue(Role role, const std::string& name, const std::string& target,
                             std::chrono::seconds life = kUsualLife) const;
  // A grant, signed, as a text that read_grant() understands; its domain is filled in. Errors: those of
  // check_grant().
  [[nodiscard]] Result<std::string> grant(Grant grant) const;
  // The same in `folder`, as TENANT.grant (+any.grant of kAnyTenant), where nodes look for it. Errors:
  // UNAVAILABLE, too.
  [[nodiscard]] Status write_grant(Grant grant, const std::string& folder) const;
  // Adds to the list of what is revoked in `folder` (kRevokedFile): certificates of that name which were
  // issued before now. Errors: as issue().
  static Status revoke(Role role, const std::string& name, const std::string& folder);

  [[nodiscard]] const std::string& domain() const { return domain_; }

 private:
  Authority(std::string domain, std::string key_pem, std::string certificate_pem);
  std::string domain_;
  std::string key_pem_;
  std::string certificate_pem_;
};

}  // namespace square
