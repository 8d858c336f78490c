# Installed files come with the package.
