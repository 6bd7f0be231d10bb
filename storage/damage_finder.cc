#include "storage/damage_finder.h"

#include <utility>

#include "storage/chain.h"

namespace paracord {

const DamageFinder::Seen& DamageFinder::Look(const std::string& directory) {
  const auto [at, made] = seen_.try_emplace(directory);
  Seen& seen = at->second;
  if (!made) return seen;
  seen.manifest = ReadManifest(files_, directory);
  if (!seen.manifest.ok()) return seen;
  seen.damage = whole_ ? FindOwnDamage(files_, directory, *seen.manifest, seen.tables)
                       : FindWrongSizes(files_, directory, *seen.manifest);
  return seen;
}

std::vector<absl::Status> DamageFinder::Find(const std::string& directory) {
  const Seen& own = Look(directory);
  if (!own.manifest.ok()) return {own.manifest.status()};
  std::vector<absl::Status> damage = own.damage;
  std::vector<uint32_t> open;  // partitions whose next older link must be read
  for (const ManifestPartition& partition : own.manifest->partitions) {
    if (partition.delta) open.push_back(partition.spec.id());
  }
  const Seen* newer = &own;
  std::string path = directory;
  // The loop ends because ReadManifest checks that a base is older.
  while (!open.empty()) {
    const std::string base_path = BaseOf(path, *newer->manifest);
    const Seen& base = Look(base_path);
    absl::Status fits = base.manifest.status();
    for (size_t i = 0; i < open.size() && fits.ok(); ++i) {
      fits = CheckSamePartition(*base.manifest, *newer->manifest, open[i], base_path);
    }
    if (!fits.ok()) {
      damage.push_back(InChainOf(directory, fits));
      return damage;
    }
    for (size_t i = 0; i < open.size() && fits.ok(); ++i) {
      const auto was = base.tables.find(open[i]), is = newer->tables.find(open[i]);
      if (was == base.tables.end() || is == newer->tables.end()) continue;
      fits = CheckContinues(was->second, is->second, path, *newer->manifest);
    }
    if (!fits.ok()) damage.push_back(newer == &own ? fits : InChainOf(directory, fits));
    for (const absl::Status& status : base.damage) damage.push_back(InChainOf(directory, status));
    std::erase_if(open, [&](uint32_t id) { return !base.manifest->partitions[id].delta; });
    newer = &base;
    path = base_path;
  }
  return damage;
}

std::vector<absl::Status> FindDamage(Files& files, const std::string& directory) {
  return DamageFinder(files, /*whole=*/true).Find(directory);
}

std::vector<absl::Status> FindObviousDamage(Files& files, const std::string& directory) {
  return DamageFinder(files, /*whole=*/false).Find(directory);
}

}  // namespace paracord
