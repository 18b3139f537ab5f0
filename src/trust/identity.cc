#include "square/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/address.h"
#include "trust/certificate.h"
#include "trust/files.h"
#include "trust/grants.h"

namespace square {
namespace {

using namespace trust;

constexpr std::size_t kFingerprintDigits = 64;
// Of an identity that lives as long as a process: no job runs for longer.
constexpr std::chrono::hours kOwnLife{24 * 398};

bool is_fingerprint(std::string_view text) {
  return text.size() == kFingerprintDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_signed_by(X509& certificate, X509& authority) {
  const std::unique_ptr<X509_STORE, Freed<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), &authority);
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME);
  return X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr) == 1 &&
         X509_verify_cert(context.get()) == 1;
}

std::string describe_peer(const PeerCertificate& peer) {
  return peer.name ? to_string(*peer.name) : fmt::format("the certificate {:.16}...", peer.fingerprint);
}

bool is_revoked(const PeerCertificate& peer, const std::vector<Revocation>& revoked) {
  return std::ranges::any_of(revoked, [&](const Revocation& one) {
    return one.role == peer.name->role && one.name == peer.name->name && peer.issued < one.before;
  });
}

}  // namespace

struct Identity::State {
  std::optional<IdentityName> name;
  std::string folder;
  std::string fingerprint;
  std::string key_pem;
  std::string certificate_pem;

  mutable std::mutex mutex;
  std::set<std::string, std::less<>> believed;
  std::vector<Revocation> revoked;
};

Identity::Identity(std::unique_ptr<State> state) : state_(std::move(state)) {}
Identity::~Identity() = default;

Result<std::shared_ptr<Identity>> Identity::open(const std::string& folder) {
  const std::filesystem::path place(folder);
  const std::string own_file = (place / kIdentityFile).string();
  const std::string authority_file = (place / kAuthorityFile).string();
  SQUARE_ASSIGN_OR_RETURN(const std::string own_pem, read_file(own_file, Secrecy::kSecret));
  SQUARE_ASSIGN_OR_RETURN(const std::string authority_pem, read_file(authority_file, Secrecy::kPublic));
  const KeyPtr key = read_key_pem(own_pem);
  const CertificatePtr own = read_certificate_pem(own_pem);
  const CertificatePtr authority = read_certificate_pem(authority_pem);
  if (!key || !own)
    return invalid_argument(fmt::format("{} does not hold a key and a certificate", own_file));
  if (!authority) return invalid_argument(fmt::format("{} holds no certificate", authority_file));
  const PeerCertificate self = trust::describe(*own);
  if (!self.name) return invalid_argument(fmt::format("{} names no spiffe://DOMAIN/ROLE/NAME", own_file));
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    return failed_precondition(fmt::format("the key in {} is not that of its certificate", own_file));
  }
  if (expiry_of(*own) <= std::time(nullptr)) {
    return failed_precondition(
        fmt::format("the certificate of {} in {} has expired: issue a new one with `square ca issue`",
                    to_string(*self.name), own_file));
  }
  if (!is_signed_by(*own, *authority)) {
    return failed_precondition(fmt::format("{} was not signed by {}", own_file, authority_file));
  }
  auto state = std::make_unique<State>();
  state->name = self.name;
  state->folder = folder;
  state->fingerprint = self.fingerprint;
  return std::shared_ptr<Identity>(new Identity(std::move(state)));
}

Result<std::shared_ptr<Identity>> Identity::make_own() {
  const KeyPtr key = make_key();
  if (!key) return internal_error(fmt::format("cannot make a key: {}", openssl_error()));
  SQUARE_ASSIGN_OR_RETURN(
      const CertificatePtr certificate,
      make_certificate({"Square, known by its fingerprint", std::nullopt, kOwnLife, false}, *key, nullptr,
                       nullptr));
  return in_memory(fingerprint_of(*certificate), to_pem(*key), to_pem(*certificate));
}

Result<std::shared_ptr<Identity>> Identity::own_of(std::string_view pem) {
  const KeyPtr key = read_key_pem(pem);
  const CertificatePtr certificate = read_certificate_pem(pem);
  if (!key || !certificate || X509_check_private_key(certificate.get(), key.get()) != 1) {
    return invalid_argument("it does not hold a key and its certificate, in PEM");
  }
  return in_memory(fingerprint_of(*certificate), to_pem(*key), to_pem(*certificate));
}

std::shared_ptr<Identity> Identity::in_memory(std::string fingerprint, std::string key,
                                              std::string certificate) {
  auto state = std::make_unique<State>();
  state->believed.insert(fingerprint);  // a process may hold several nodes
  state->fingerprint = std::move(fingerprint);
  state->key_pem = std::move(key);
  state->certificate_pem = std::move(certificate);
  return std::shared_ptr<Identity>(new Identity(std::move(state)));
}

const std::optional<IdentityName>& Identity::name() const { return state_->name; }
const std::string& Identity::folder() const { return state_->folder; }
const std::string& Identity::fingerprint() const { return state_->fingerprint; }
const std::string& Identity::key_pem() const { return state_->key_pem; }
const std::string& Identity::certificate_pem() const { return state_->certificate_pem; }

Result<PeerCertificate> Identity::shown() const {
  if (!state_->name) return read_certificate(state_->certificate_pem);
  const std::string file = (std::filesystem::path(state_->folder) / kIdentityFile).string();
  SQUARE_ASSIGN_OR_RETURN(const std::string pem, read_file(file, Secrecy::kSecret));
  return read_certificate(pem);
}

std::string Identity::grant_of(const std::string& tenant) const {
  if (!state_->name) return {};
  std::vector<std::string> files{kAnyGrantFile};
  const bool has_file = check_identity_name({state_->name->domain, Role::kTenant, tenant}).is_ok();
  if (has_file) files.insert(files.begin(), grant_file_of(tenant));
  for (const std::string& file : files) {
    const auto text = read_file((std::filesystem::path(state_->folder) / file).string(), Secrecy::kPublic);
    if (text.is_ok()) return *text;
    if (text.status().code() != StatusCode::kNotFound)
      log(LogLevel::kWarning, "trust", "no grant of tenant {}: {}", tenant, text.status().message());
  }
  return {};
}

std::vector<std::string> Identity::grants() const {
  if (!state_->name) return {};
  std::error_code error;  // a folder that went away has none
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(state_->folder, error)) {
    if (entry.path().extension() == kGrantSuffix) files.insert(entry.path().string());
  }
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    const auto text = read_file(file, Secrecy::kPublic);
    if (text.is_ok() && texts.size() < kMaxGrants) texts.push_back(*text);
  }
  return texts;
}

Status Identity::believe(const std::vector<std::string>& fingerprints) {
  for (const std::string& one : fingerprints) {
    if (!is_fingerprint(one)) {
      return invalid_argument(fmt::format("\"{:.100}\" is no fingerprint: {} lower-case hexadecimal digits",
                                          one, kFingerprintDigits));
    }
  }
  const std::lock_guard lock(state_->mutex);
  for (const std::string& one : fingerprints) {
    if (state_->believed.size() >= kMaxFingerprints && !state_->believed.contains(one)) {
      return resource_exhausted(fmt::format("{} fingerprints are believed already", kMaxFingerprints));
    }
    state_->believed.insert(one);
  }
  return {};
}

void Identity::set_revoked(std::vector<Revocation> revoked) {
  const std::lock_guard lock(state_->mutex);
  state_->revoked = std::move(revoked);
}

std::vector<Revocation> Identity::revoked() const {
  const std::lock_guard lock(state_->mutex);
  return state_->revoked;
}

Status Identity::check(const PeerCertificate& peer, const std::vector<Role>& roles,
                       std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->name) {
    if (state_->believed.contains(peer.fingerprint)) return {};
    return unauthenticated(
        fmt::format("{} is a stranger: its fingerprint was not told to this process", describe_peer(peer)));
  }
  if (!peer.name) return unauthenticated("the peer's certificate names no spiffe://DOMAIN/ROLE/NAME");
  if (peer.name->domain != state_->name->domain) {
    return unauthenticated(
        fmt::format("{} is of another domain than {}", to_string(*peer.name), to_string(*state_->name)));
  }
  if (is_revoked(peer, state_->revoked)) {
    return unauthenticated(fmt::format("the certificate of {} was revoked", to_string(*peer.name)));
  }
  const bool has_role = roles.empty() || std::ranges::find(roles, peer.name->role) != roles.end();
  if (has_role && (name.empty() || peer.name->name == name)) return {};
  return permission_denied(fmt::format("the peer is {}, not {} \"{}\"", to_string(*peer.name),
                                       roles.empty() ? "the holder of" : to_string(roles.front()),
                                       name.empty() ? "any" : name));
}

Status check_exposure(std::string_view host, const std::shared_ptr<Identity>& identity, bool insecure,
                      std::string_view what) {
  if (identity != nullptr && insecure) {
    return invalid_argument(
        fmt::format("{} has an identity and is to be insecure: give one of the two", what));
  }
  if (identity != nullptr || net::is_loopback(std::string(host))) return {};
  if (!insecure) {
    return invalid_argument(fmt::format(
        "{} listens at {}, where other machines reach it, and needs an identity: make one with `square ca "
        "init` "
        "and `square ca issue` and name its folder (--identity, SQUARE_IDENTITY), or say --insecure",
        what, host));
  }
  log(LogLevel::kWarning, "trust",
      "{} is insecure: whoever reaches {} can read, change and be anybody here; identities end that", what,
      host);
  return {};
}

}  // namespace square
