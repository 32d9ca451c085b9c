# Runs during the build: creates links in INTO to every source file in FROM, and bin/lockstep as a link to PROGRAM.
# Removes links to deleted files, so that a deleted module cannot be imported any more.
file(GLOB_RECURSE links LIST_DIRECTORIES false RELATIVE ${INTO} ${INTO}/*)
foreach(link IN LISTS links)
  if(IS_SYMLINK ${INTO}/${link} AND NOT EXISTS ${INTO}/${link})
    file(REMOVE ${INTO}/${link})
  endif()
endforeach()

file(GLOB_RECURSE sources RELATIVE ${FROM} ${FROM}/*.py ${FROM}/*.pyi ${FROM}/py.typed)
foreach(source IN LISTS sources)
  if(NOT EXISTS ${INTO}/${source})
    get_filename_component(folder ${INTO}/${source} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${FROM}/${source} ${INTO}/${source} SYMBOLIC)
  endif()
endforeach()

file(MAKE_DIRECTORY ${INTO}/bin)
file(CREATE_LINK ${PROGRAM} ${INTO}/bin/lockstep SYMBOLIC)
