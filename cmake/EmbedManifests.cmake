# The manifests of deploy/kubernetes as a source file, so that `paracord render` writes what
# kustomize does.
set(manifests_cc ${PROJECT_BINARY_DIR}/manifests.cc)
set(manifests_text "// Written by cmake/EmbedManifests.cmake.\n#include \"cli/manifests.h\"\n\n")
string(APPEND manifests_text "namespace paracord {\n\n")
foreach(path storage base/coordinator base/ps base/worker base/export base/network
    overlays/nodes/leader overlays/nodes/nodes overlays/spot/autoscaler
    components/monitored/monitors components/monitored/pods components/monitored/metrics)
  set(manifest ${PROJECT_SOURCE_DIR}/deploy/kubernetes/${path}.yaml)
  get_filename_component(name ${path} NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  file(READ ${manifest} manifest_text)
  string(APPEND manifests_text
    "const char k_${name}_manifest[] = R\"yaml(${manifest_text})yaml\";\n\n")
endforeach()
string(APPEND manifests_text "}  // namespace paracord\n")
file(CONFIGURE OUTPUT ${manifests_cc} CONTENT "${manifests_text}" @ONLY)
