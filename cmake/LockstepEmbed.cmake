# Files as parts of a program.
#
# lockstep_embed(target NAMESPACE lockstep::sim FILES page.html page.js): each file becomes `extern const
# std::string_view kPageHtml` of a header that is made beside it in the build folder: FOLDER/embedded.h for a target
# in FOLDER. The target lockstep_generated makes all such files and builds nothing: for tools that only
# read sources.
set(LOCKSTEP_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed.cmake)

function(lockstep_embed target)
  cmake_parse_arguments(ARG "" "NAMESPACE" "FILES" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded.cc)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/embedded.h)
  set(files)
  foreach(file IN LISTS ARG_FILES)
    list(APPEND files ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_custom_command(
    OUTPUT ${source} ${header}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DNAMESPACE=${ARG_NAMESPACE} -DSOURCE=${source} -DHEADER=${header}
            -P ${LOCKSTEP_EMBED_SCRIPT}
    DEPENDS ${files} ${LOCKSTEP_EMBED_SCRIPT}
    COMMENT "Embedding ${ARG_FILES}"
    VERBATIM)
  if(NOT TARGET lockstep_generated)
    add_custom_target(lockstep_generated)
  endif()
  add_custom_target(${target}_generated DEPENDS ${source} ${header})
  add_dependencies(lockstep_generated ${target}_generated)
  target_sources(${target} PRIVATE ${source} ${header})
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR})
endfunction()
