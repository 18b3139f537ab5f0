// Who a process is to others, and whom it believes: certificates and keys, in files or made by itself.
//
// A certificate names its holder spiffe://DOMAIN/ROLE/NAME. Every connection that leaves the loopback is
// mutual TLS: both ends show a certificate, and each looks whether the other is who it should be. There are
// two ways to believe one: an authority of both has signed it (open()), or its fingerprint was told
// beforehand over something that is trusted, as torch's store is by the ranks of one job (make_own()).
// docs/security.md has the whole of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/status.h"

namespace square {

// What the holder of a certificate may be.
enum class Role : std::uint8_t { kNode, kTenant, kController, kServer };

std::string_view to_string(Role role);
// Errors: INVALID_ARGUMENT for another word than "node", "tenant", "controller" and "server".
Result<Role> parse_role(std::string_view word);

struct IdentityName {
  std::string domain;  // of the operator, as "square.example"
  Role role = Role::kNode;
  std::string name;  // of the node, and so on, as the overlay calls it

  friend bool operator==(const IdentityName&, const IdentityName&) = default;
};

inline constexpr std::size_t kMaxIdentityDomainBytes = 255;
inline constexpr std::size_t kMaxIdentityNameBytes = 256;

// spiffe://DOMAIN/ROLE/NAME, after the SPIFFE standard: domains of lower-case letters, digits, '.', '-' and
// '_', names of letters, digits, '.', '-' and '_'. Names of nodes and tenants may have other bytes, too, but
// control characters, which the standard has no place for: they are percent-encoded there.
std::string to_string(const IdentityName& name);
// Errors: INVALID_ARGUMENT saying what is wrong.
Result<IdentityName> parse_identity_name(std::string_view uri);
Status check_identity_name(const IdentityName& name);
// The name as it stands in the URI, and in names of files.
std::string to_path_segment(std::string_view name);

// Certificates of a name that were issued before a time are believed no more.
struct Revocation {
  Role role = Role::kNode;
  std::string name;
  std::int64_t before = 0;  // seconds since 1970

  friend bool operator==(const Revocation&, const Revocation&) = default;
};

// What a peer has shown: its certificate, which the TLS handshake has found to be its own.
struct PeerCertificate {
  std::optional<IdentityName> name;  // none: it names nobody
  std::string fingerprint;           // SHA-256 of the certificate, 64 lower-case hexadecimal digits
  std::int64_t issued = 0;           // seconds since 1970; of another authority's: from when it holds
  std::int64_t expires = 0;          // as well: the end of its time
};
// Errors: INVALID_ARGUMENT for what is no certificate in PEM.
Result<PeerCertificate> read_certificate(std::string_view pem);

// Thread-safe.
class Identity {
 public:
  // What a folder of an identity holds: key and certificate in one file, so that both are replaced at once;
  // the certificates of the authorities that are believed; and, with the controller, what was revoked.
  static constexpr const char* kIdentityFile = "identity.pem";
  static constexpr std::size_t kMaxGrants = 64;
  static constexpr const char* kAuthorityFile = "authority.pem";
  static constexpr const char* kRevokedFile = "revoked";
  // A replaced file is seen after so long.
  static constexpr std::chrono::seconds kWatchInterval{1};
  static constexpr std::size_t kMaxFingerprints = 65'536;

  // Of a folder that `square ca issue` has written; the files may be replaced while it is used, and new
  // connections show the new certificate. Errors: NOT_FOUND naming the file, PERMISSION_DENIED where others
  // may read the key, INVALID_ARGUMENT where a file is none of these, FAILED_PRECONDITION for a certificate
  // that has expired or is of another authority or key.
  static Result<std::shared_ptr<Identity>> open(const std::string& folder);
  // A key and a certificate of its own, in memory only, which those believe that were told its fingerprint.
  static Result<std::shared_ptr<Identity>> make_own();
  // The same again, in another process, from its key_pem() and certificate_pem(): whoever has these is
  // believed in its place. Errors: INVALID_ARGUMENT.
  static Result<std::shared_ptr<Identity>> own_of(std::string_view pem);
  ~Identity();
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  // None of one that was made by make_own().
  [[nodiscard]] const std::optional<IdentityName>& name() const;
  [[nodiscard]] const std::string& folder() const;  // empty of one in memory
  // Of the certificate as it was when this was made.
  [[nodiscard]] const std::string& fingerprint() const;
  // Key and certificate, both PEM; of one in memory.
  [[nodiscard]] const std::string& key_pem() const;
  [[nodiscard]] const std::string& certificate_pem() const;

  // The certificate that new connections show: as its file has it now. Errors: those of reading it.
  [[nodiscard]] Result<PeerCertificate> shown() const;
  // What the folder holds of the tenant, TENANT.grant or else +any.grant, to be shown to a controller; empty:
  // nothing.
  [[nodiscard]] std::string grant_of(const std::string& tenant) const;
  // All of them, by the names of their files; at most kMaxGrants.
  [[nodiscard]] std::vector<std::string> grants() const;

  // Believes the holders of these certificates, whatever they name. For identities of make_own(). Errors:
  // INVALID_ARGUMENT for what is no fingerprint, RESOURCE_EXHAUSTED beyond kMaxFingerprints.
  Status believe(const std::vector<std::string>& fingerprints);
  // In the place of what was revoked before.
  void set_revoked(std::vector<Revocation> revoked);
  [[nodiscard]] std::vector<Revocation> revoked() const;

  // Whether a peer, whose possession of the key TLS has proved, is believed: by its fingerprint; or, signed
  // by an authority as TLS has found, by its domain and because it was not revoked. `roles` are those that it
  // may be here and `name` who it must be; empty: anyone. Errors: UNAUTHENTICATED for a stranger,
  // PERMISSION_DENIED for somebody else.
  [[nodiscard]] Status check(const PeerCertificate& peer, const std::vector<Role>& roles,
                             std::string_view name) const;

 private:
  struct State;
  explicit Identity(std::unique_ptr<State> state);
  static std::shared_ptr<Identity> in_memory(std::string fingerprint, std::string key,
                                             std::string certificate);
  std::unique_ptr<State> state_;
};

// The identity of a process that may be reached at `host`: none is needed on the loopback. `insecure` does
// without, which is said in the log. `what` is who asks, as "node \"fra\"". Errors: INVALID_ARGUMENT naming
// what to do.
Status check_exposure(std::string_view host, const std::shared_ptr<Identity>& identity, bool insecure,
                      std::string_view what);

}  // namespace square
