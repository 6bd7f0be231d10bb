# libparacord_cuda.so, beside the programs, which load it when they are to compute on a GPU. nvcc
# compiles the kernels alone; the rest is C++ against the toolkit's headers. cudart is inside,
# cuBLAS and cuDNN are opened at run time.
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(PARACORD_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(PARACORD_NVCC)
    set(CMAKE_CUDA_COMPILER ${PARACORD_NVCC})
  endif()
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  find_package(CUDAToolkit)
endif()
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND CUDNN_INCLUDE_DIR)
  set(CMAKE_CUDA_ARCHITECTURES ${PARACORD_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know it of this nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tensor/cuda/*.cc
    ${PROJECT_SOURCE_DIR}/tensor/cuda/*.cu)
  add_library(paracord_cuda MODULE ${cuda_sources} ${PROJECT_SOURCE_DIR}/common/log_write.cc)
  target_include_directories(paracord_cuda PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(paracord_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
    ${CUDNN_INCLUDE_DIR})
  target_compile_options(paracord_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow -Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -O3 -lineinfo>)
  string(REGEX MATCHALL "[0-9]+" architecture_min "${PARACORD_CUDA_ARCHITECTURES}")
  if(NOT architecture_min)
    set(architecture_min 75)  # all, native: from the first that nvcc knows on
  endif()
  list(SORT architecture_min COMPARE NATURAL)
  list(GET architecture_min 0 architecture_min)
  target_compile_definitions(paracord_cuda PRIVATE
    PARACORD_CUDA_ARCHITECTURE_MIN=${architecture_min})
  set_target_properties(paracord_cuda PROPERTIES
    CUDA_STANDARD 20
    CUDA_ARCHITECTURES "${PARACORD_CUDA_ARCHITECTURES}"
    CUDA_RUNTIME_LIBRARY Static
    CXX_VISIBILITY_PRESET hidden
    POSITION_INDEPENDENT_CODE ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_link_options(paracord_cuda PRIVATE -Wl,-z,defs)
  target_link_libraries(paracord_cuda PRIVATE CUDA::cudart_static absl::status absl::statusor
    absl::strings spdlog::spdlog ${CMAKE_DL_LIBS})
  message(STATUS "CUDA plug-in: ${CMAKE_CUDA_COMPILER}, for ${PARACORD_CUDA_ARCHITECTURES}")
elseif(PARACORD_CUDA STREQUAL "on")
  message(FATAL_ERROR "PARACORD_CUDA=on needs nvcc and cudnn.h")
else()
  message(STATUS "CUDA plug-in: not built (no nvcc or no cudnn.h)")
endif()
