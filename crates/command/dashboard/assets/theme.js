// Runs before the first paint, so that a chosen theme does not flash.
try {
  const theme = localStorage.getItem('tollway-theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is off: the system's theme applies */ }
